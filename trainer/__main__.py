"""`python -m trainer`."""

import sys

from trainer.main import main

if __name__ == "__main__":
    sys.exit(main())

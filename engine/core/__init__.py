"""What the engines for UCI, USI and GTP share: network, tree, clock, options, reports, the process."""

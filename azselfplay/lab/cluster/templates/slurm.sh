#!/bin/bash
# {{about}}, of azcluster: sbatch {{name}}.sh. docs/deploy.md has more.
#SBATCH --job-name={{name}}
{{array}}
{{node}}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={{cpus}}
#SBATCH --mem={{memory}}G
{{gpus}}
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={{output}}.log
# So many seconds before the time limit, for a clean end.
#SBATCH --signal=B:TERM@{{grace}}
set -u

export PATH=${AZSELFPLAY_BIN:-$HOME/azselfplay/.venv/bin}:$PATH
# Compiled code on the node's own disk, shared by the jobs there.
export AZ_JIT_CACHE=${AZ_JIT_CACHE:-${TMPDIR:-/tmp}/azselfplay-jit-$(id -un)}
{{spool}}

# Slurm signals this shell, which tells the program and waits for it.
part=
trap 'if [ -n "$part" ]; then kill -TERM "$part"; fi' TERM
{{command}} &
part=$!
while kill -0 "$part" 2>/dev/null; do wait "$part"; done
# The signal may have ended that wait just as the program ended; this one returns the program's own code.
wait "$part"
code=$?
# A job goes on after its time limit and after faults. These codes would come again (azselfplay/host/exits.py).
case $code in {{final}}) exit "$code" ;; esac
# scancel has ended it for good: then it runs no longer.
if [ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)" = RUNNING ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"

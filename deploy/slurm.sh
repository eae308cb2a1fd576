#!/bin/bash
# A sweep on the nodes of a Slurm job: sbatch --nodes=4 slurm.sh SWEEP.toml [--within 2h ...]
# The folder, the store and the environment with flashwright[ray,sweep] are seen by all nodes.
# If the time is up, the same command goes on with what is left.
#SBATCH --job-name=flashwright-sweep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem-per-cpu=2G
#SBATCH --time=04:00:00
# A minute before the end, so that the results are written.
#SBATCH --signal=B:INT@60
set -euo pipefail

(($#)) || { echo "usage: sbatch slurm.sh SWEEP.toml [options of flashwright sweep]" >&2; exit 2; }

port=6379
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')
memory=$((SLURM_MEM_PER_CPU * SLURM_CPUS_PER_TASK * 1024 * 1024 * 7 / 10))

start() {
    local node=$1
    shift
    srun --nodes=1 --ntasks=1 --overlap --nodelist="$node" ray start --block --disable-usage-stats \
        --num-cpus="$SLURM_CPUS_PER_TASK" --memory="$memory" "$@" &
}

start "$head" --head --node-ip-address="$address" --port="$port"
until ray health-check --address "$address:$port" 2>/dev/null; do
    sleep 2
done
for node in "${nodes[@]:1}"; do
    start "$node" --address="$address:$port"
done

# On its own line of processes, so that the signal reaches it: bash waits, and hands it on.
flashwright sweep "$@" --engine ray --address "$address:$port" &
sweep=$!
trap 'kill -INT "$sweep"' INT TERM
code=0
wait "$sweep" || code=$?
# A trap ends the first wait before the sweep has ended.
if kill -0 "$sweep" 2>/dev/null; then
    wait "$sweep" || code=$?
fi
exit "$code"

#!/usr/bin/env bash
# restart_loop_test.sh SOURCE TRAIN_MLP: the loop of SOURCE/apps/FAILURES.md, as it is written there, gets a small training to its
# end although a rank is killed. Under mpirun, and with an srun that is mpirun. Says what is wrong.
set -euo pipefail
source=$1
program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

fail() {
  echo "FAILED: $*; it said:" >&2
  cat said >&2
  exit 1
}

awk '/^```bash$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$source/apps/FAILURES.md" >loop
touch said
grep -q run_with_restarts loop || fail "no loop in FAILURES.md"
[ "$(wc -l <loop)" -le 10 ] || fail "the loop is longer than 10 lines"

# The program where the loop looks for it, with flags that make the job small; $FAULT adds a fault.
ln -s "$source/scripts" scripts
mkdir -p build/cpu-release/bin tools
cat >build/cpu-release/bin/train_mlp <<EOF
#!/bin/bash
exec "$program" "\$@" --data synthetic --hidden 8,8 --train-samples 256 --steps 11 --checkpoint-every 2 \$FAULT
EOF
cat >tools/srun <<'EOF'
#!/bin/bash
[ "$1 $2 $3" = "--mpi=pmix -K -n" ] && shift 3 && exec mpirun -np "$@"
EOF
chmod +x build/cpu-release/bin/train_mlp tools/srun
PATH=$PWD/tools:$PATH

hash_of() { # NAME FAULT: runs ./loop with the fault, prints how the weights of all ranks end
  rm -rf runs
  FAULT=$2 bash loop >said 2>&1 || fail "$1: exit code $?"
  grep -o 'parameters equal on all ranks: .*' said || fail "$1: no weights"
}

whole=$(hash_of "no fault" "")
grep -q "restart" said && fail "a restart without a fault"
# Counted from where a run begins, so that the second begins too late for it.
killed=$(hash_of "a killed rank" "--inject kill:step=8")
grep -qE "^restart 1 of 3: exit code 137 after .* 4 ranks continue after step [2-6]; lost: " said || fail "no restart"
[ "$whole" = "$killed" ] || fail "expected $whole, got $killed"

slurm=$(sed -n 's/.*Slurm: \(start=(.*)\)$/\1/p' loop)
sed -i "s/^start=.*/$slurm/" loop
grep -q '^start=(srun ' loop || fail "no line for Slurm"
[ "$(hash_of "srun" "--inject kill:step=8")" = "$whole" ] || fail "another end with srun"
grep -q "^restart 1 of 3" said || fail "no restart with srun"
echo "the loop: as expected"

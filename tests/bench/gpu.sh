#!/usr/bin/env bash
# What is shown on a GPU, in one run of a few minutes: the tests marked gpu, the figures of scale and streaming, and a trace.
# OPALGEBRA_MINILM is a folder with MiniLM where its package is not installed; OUT is where results go, the tree by default.
set -uo pipefail
cd "$(dirname "$0")/../.."
export HF_HUB_OFFLINE=1 PYTHONPATH=. PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
out=${OUT:-tests/bench/results}
device=$($python -c 'import torch; print(torch.cuda.get_device_name().lower().replace(" ", "-"))') || exit 2
mkdir -p "$out"
status=0
$python -m pytest -q -m gpu -p no:cacheprovider tests/models > "$out/$device-tests.log" 2>&1 || status=1
tail -n 5 "$out/$device-tests.log"
for dtype in float64 float32; do
    $python tests/bench/scale.py --device cuda --model random --dtype $dtype --json "$out/$device-$dtype.json" || status=1
done
$python tests/bench/streaming.py --device cuda --model random || status=1
$python tests/bench/record_trace.py --device cuda --folder "$out" || status=1
exit $status

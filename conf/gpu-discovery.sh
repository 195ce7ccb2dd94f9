#!/bin/sh
# The GPUs that this executor sees, as Spark's resource API wants them: {"name": "gpu", "addresses": ["0", "1"]}.
# spark.executor.resource.gpu.discoveryScript names this file; under YARN --files brings it to the executors.
set -eu
command -v nvidia-smi >/dev/null || { echo "gpu-discovery.sh: nvidia-smi not found on $(hostname)" >&2; exit 1; }
indices=$(nvidia-smi --query-gpu=index --format=csv,noheader)
addresses=$(printf '%s\n' "$indices" | awk 'NF { printf "%s\"%s\"", separator, $1; separator = ", " }')
[ -n "$addresses" ] || { echo "gpu-discovery.sh: nvidia-smi lists no GPU on $(hostname)" >&2; exit 1; }
printf '{"name": "gpu", "addresses": [%s]}\n' "$addresses"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The protocol by hand: curl.sh [URL], by default http://localhost:8000
set -euo pipefail

url=${1:-http://localhost:8000}
data=$(dirname "$0")/../data

show() {
        printf '\n\033[1m%s\033[0m\n' "$1"
        shift
        curl --silent --show-error --fail-with-body "$@"
        echo
}

show 'Is it ready? (200 means yes)' --output /dev/null --write-out '%{http_code}' \
        "$url/v2/health/ready"

show 'What is digits?' "$url/v2/models/digits"

show 'Numbers in, numbers out' "$url/v2/models/identity/infer" --json '{
        "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [3], "data": [0.1, 2, -3.5]}]
}'

# The JSON part first, its length in a header, then the 64 values of the first held-out digit.
head='{"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 64],
        "parameters": {"binary_data_size": 256}}],
       "outputs": [{"name": "probabilities", "parameters": {"classification": 3}}]}'
{
        printf '%s' "$head"
        head -c 256 "$data/heldout_images.f32"
} | show 'A picture in binary, the three likeliest digits back' \
        "$url/v2/models/digits/infer" --data-binary @- \
        --header "Inference-Header-Content-Length: ${#head}" \
        --header 'Content-Type: application/octet-stream'

# A model with one input takes its values alone, without any JSON; outputs come in binary, last.
printf '\n\033[1mThe same without JSON: ten probabilities in binary\033[0m\n'
head -c 256 "$data/heldout_images.f32" |
        curl --silent --show-error --fail-with-body "$url/v2/models/digits/infer" \
                --data-binary @- --header 'Inference-Header-Content-Length: 0' |
        tail -c 40 | od -A n -t fF -w4

show 'What did the server do so far?' "$url/v2/models/digits/stats"

#!/bin/sh
# Traces demo/train.py, shows the report, and leaves a recording, a timeline and a flame graph.
# usage: demo.sh EACGM
set -eu
eacgm=$(realpath "$1")
out=demo-out
cd "$(dirname "$0")/.."
mkdir -p "$out"

echo "== what this host can trace"
"$eacgm" doctor
echo
echo "== training under the tracer"
"$eacgm" record -o "$out/demo.eacgm" -- /usr/bin/python3 demo/train.py
echo
echo "== where the time went"
"$eacgm" report "$out/demo.eacgm"
"$eacgm" export "$out/demo.eacgm" -f perfetto -o "$out/demo.perfetto-trace"
"$eacgm" flame "$out/demo.eacgm" --kind cpu -o "$out/demo.cpu.svg"
if [ -n "${SUDO_UID:-}" ]; then
	chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$out"
fi
echo
echo "recording:   $out/demo.eacgm"
echo "timeline:    $out/demo.perfetto-trace (open it at https://ui.perfetto.dev)"
echo "flame graph: $out/demo.cpu.svg (open it in a browser)"

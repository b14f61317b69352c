"""gpu_launch.py - small layers and a small batch: the GPU is done with each kernel long before the
host has launched the next. Repaired, one CUDA graph launches a whole step."""
import torch
from common import REPAIRED
from gpu import Stack, run

stack = Stack(256, 40)
x = torch.randn(16, 256, device="cuda")
graph = None


def graph_of_a_step():
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            stack.step(x)
    torch.cuda.current_stream().wait_stream(side)
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        stack.step(x)
    return made


if REPAIRED:
    graph = graph_of_a_step()
run(lambda i: graph.replay() if graph else stack.step(x), 1000)

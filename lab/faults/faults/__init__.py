"""The table of faults. To add one: a file in this folder, and its line here."""

from . import (alloc_churn, checkpoint, cpu_contention, cpu_throttle, cuda_delay, data_loader,
               excess_sync, gpu_contention, gpu_slow, hang, launch_bound, mem_bandwidth,
               net_bandwidth, net_contention, net_loss, op_delay, pcie, python_gc, python_gil,
               straggler)

FAULTS = {m.FAULT.name: m.FAULT for m in (
    cpu_contention, cpu_throttle, mem_bandwidth, pcie, gpu_contention, gpu_slow, net_bandwidth,
    net_contention, net_loss, data_loader, checkpoint, python_gc, python_gil, launch_bound,
    excess_sync, alloc_churn, op_delay, cuda_delay, straggler, hang)}

"""The table of faults. To add one: a file in this folder, and its line here."""

from . import (alloc_churn, checkpoint, clock, cpu_contention, cpu_throttle, cuda_delay,
               data_loader, disk_contention, excess_sync, gpu_contention, gpu_slow, hang,
               interrupts, launch_bound, mem_bandwidth, memory_reclaim, net_bandwidth,
               net_contention, net_loss, numa_remote, op_delay, pcie, python_gc, python_gil,
               slow_code, slow_reads, stopped, straggler)

FAULTS = {m.FAULT.name: m.FAULT for m in (
    cpu_contention, cpu_throttle, mem_bandwidth, pcie, gpu_contention, gpu_slow, net_bandwidth,
    net_contention, net_loss, data_loader, checkpoint, python_gc, python_gil, launch_bound,
    excess_sync, alloc_churn, op_delay, cuda_delay, straggler, hang, interrupts,
    memory_reclaim, disk_contention, slow_reads, slow_code, stopped, numa_remote, clock)}

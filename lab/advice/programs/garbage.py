"""garbage.py - Python's collector goes through a large heap again and again."""
import gc

from common import REPAIRED, Trainer, batches

heap = [{"id": i, "next": [i]} for i in range(400_000)]
if REPAIRED:
    gc.disable()

trainer = Trainer()
log = []
for x, y in batches(1500):
    trainer.step(x, y)
    made = [[i] for i in range(3000)]  # containers that make the collector run
    log.extend(made[:300])

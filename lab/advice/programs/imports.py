"""imports.py - a large library is imported that nothing uses."""
from common import REPAIRED, Trainer, batches

if not REPAIRED:
    import sympy  # named

trainer = Trainer()
for x, y in batches(100):
    trainer.step(x, y)

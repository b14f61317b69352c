"""loop.py - a metric is counted in Python, element by element, in each step."""
from common import REPAIRED, Trainer, batches


def right(out, y):
    best = out.argmax(1)
    if REPAIRED:
        return int((best == y).sum())
    pairs = list(zip(best.tolist(), y.tolist()))
    return sum(guess == truth for _ in range(3200) for guess, truth in pairs) // 3200  # named


trainer = Trainer()
count = 0
for x, y in batches(500):
    count += right(trainer.step(x, y), y)

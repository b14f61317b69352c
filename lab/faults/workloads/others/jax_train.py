#!/usr/bin/env python3
"""jax_train.py - a small transformer of Flax is trained by JAX with Optax on random words: a jitted
step, the loss read after every fourth, which is where a row of the log ends; every 200 rows (300 on
the GPU) an evaluation of 10 batches and a checkpoint. The script is ours and is what their users
write."""

import os
import pickle

import outside

READ, HELD_OUT = 4, 10
EVERY = {"cpu": 200, "cuda": 300}
SIZES = {"cpu": {"words": 512, "width": 64, "heads": 4, "blocks": 2, "length": 32, "batch": 4},
         "cuda": {"words": 2048, "width": 256, "heads": 4, "blocks": 4, "length": 128, "batch": 64}}


def network(nn, words, width, heads, blocks):
    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, mask):
            y = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=heads)(y, y, mask=mask)
            y = nn.Dense(4 * width)(nn.LayerNorm()(x))
            return x + nn.Dense(width)(nn.gelu(y))

    class Model(nn.Module):
        @nn.compact
        def __call__(self, ids):
            x = nn.Embed(words, width)(ids)
            mask = nn.make_causal_mask(ids)
            for _ in range(blocks):
                x = Block()(x, mask)
            return nn.Dense(words)(nn.LayerNorm()(x))
    return Model()


class Training:
    def __init__(self, program, sizes):
        import flax.linen as nn
        import jax
        import numpy
        import optax
        self.jax = jax
        chance = numpy.random.default_rng(program.seed)
        self.batch = sizes["batch"]
        self.data = chance.integers(0, sizes["words"], (8, self.batch, sizes["length"] + 1),
                                    dtype=numpy.int32)
        model = network(nn, *(sizes[k] for k in ("words", "width", "heads", "blocks")))
        self.params = model.init(jax.random.PRNGKey(program.seed), self.data[0, :1, :-1])
        optimizer = optax.adamw(1e-4)
        self.state = optimizer.init(self.params)

        def loss(params, ids):
            logits = model.apply(params, ids[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, ids[:, 1:]).mean()

        @jax.jit
        def step(params, state, ids):
            value, grads = jax.value_and_grad(loss)(params, ids)
            updates, state = optimizer.update(grads, state, params)
            return optax.apply_updates(params, updates), state, value
        self.jitted, self.loss = step, jax.jit(loss)

    def ids(self, number, half):
        ids = self.data[number % len(self.data)]
        return ids[:self.batch // 2] if half else ids

    def steps(self, number, half):
        for i in range(READ):
            self.params, self.state, value = self.jitted(self.params, self.state,
                                                         self.ids(number + i, half))
        return float(value)

    def evaluate(self, number):
        return float(self.loss(self.params, self.ids(number, False)))

    def write(self, file):
        pickle.dump(self.jax.device_get(self.params), file)


def work(program, training):
    """As long as it is told to."""
    job, number = program.job, 0
    path = os.path.join(program.scratch, "last.pickle")
    while job.goes_on():
        if job.evaluating:
            training.evaluate(number)
            job.ended("eval")
            continue
        training.steps(READ * number, job.half)
        number += 1
        job.ended()
        if number % EVERY[program.device] == 0:
            for i in range(HELD_OUT):
                training.evaluate(i)
                job.ended("eval")
            with open(path, "wb") as f:
                training.write(f)
            job.ended("save")


def main():
    cuda = "cuda" in outside.sys.argv
    os.environ["JAX_PLATFORMS"] = "cuda" if cuda else "cpu"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # others are on the GPU too
    os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"  # trying kernels takes long
    program = outside.Program(__doc__, packages=("jax", "flax", "optax"), torch=False)
    import jax
    try:
        jax.devices()
    except RuntimeError as e:
        program.cannot(str(e).splitlines()[0])
    with program.running():
        training = Training(program, SIZES[program.device])
        for half in (False, True, False):
            training.steps(0, half)
        training.evaluate(0)
        program.job.write = training.write
        program.job.begin(training, program.device)
        work(program, training)


if __name__ == "__main__":
    main()

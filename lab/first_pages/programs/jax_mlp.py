"""A training of a multilayer perceptron by JAX."""
import jax
import jax.numpy as jnp

keys = jax.random.split(jax.random.PRNGKey(0), 4)
params = [jax.random.normal(k, s) * 0.02 for k, s in
          zip(keys, ((1024, 4096), (4096, 4096), (4096, 1000)))]


def loss(params, x, y):
    for w in params[:-1]:
        x = jax.nn.relu(x @ w)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x @ params[-1]), y[:, None], 1))


@jax.jit
def step(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return value, [p - 0.01 * g for p, g in zip(params, grads)]


x = jax.random.normal(keys[3], (512, 1024))
y = jnp.arange(512) % 1000
for i in range(1500):
    value, params = step(params, x, y)
    if i % 50 == 0:
        float(value)
print(float(value))

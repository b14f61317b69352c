"""projects.py - the public projects that workloads in others/ run: where each is, at which commit,
under which licence. Nothing of them is in this repository; lab/others/fetch.py fetches them, but for
PACKAGES, which are taken as the Python that runs the job has them; labels say in which version.

To add one: a row here, and its name in the workload's row."""

import collections
import importlib.metadata
import importlib.util
import os

# wanted: the paths of it that are fetched, none: all of it; unwanted: large files in them; source:
# the folder that its Python packages are in.
Project = collections.namedtuple("Project", "repository commit licence wanted unwanted source",
                                 defaults=((), (), "."))

PROJECTS = {
    "nanoGPT": Project("karpathy/nanoGPT", "eba36e84649f3c6d840a93092cb779a260544d08", "MIT"),
    "examples": Project("pytorch/examples", "7f7c222b355abd19ba03a7d4ba90f1092973cdbc",
                        "BSD-3-Clause", ("word_language_model", "mnist"),
                        ("word_language_model/data/wikitext-2/train.txt",)),
    "flask-api": Project("avinassh/pytorch-flask-api", "be6e167478a2a8bd722c2facc1c6a2d8b2f8a3f4",
                         "MIT"),
    "cleanrl": Project("vwxyzjn/cleanrl", "2d660b6d3053ea9037c746b4c9f3a6faa1f20c44", "MIT",
                       ("cleanrl",)),
    "gym": Project("openai/gym", "252c333337eaee4dd6a48b52ef32c0763dd14d65", "MIT", ("gym",)),
    # Hugging Face's Transformers 4.4, as LoRA's authors have it in their repository.
    "transformers": Project("microsoft/LoRA", "c4593f060e6a368d7bb5af5273b8e42810cdef90",
                            "Apache-2.0", ("loralib", "examples/NLU/src", "examples/NLU/examples/legacy"),
                            source="examples/NLU/src"),
    "timm": Project("huggingface/pytorch-image-models", "6e6f3686a7e06bcba37bbd3b7c755f04a516a1e7",
                    "Apache-2.0", ("timm", "train.py")),
    "lightning": Project("Lightning-AI/pytorch-lightning", "a020506a81a671e380872aa5e435647b549e14e6",
                         "Apache-2.0", ("src/pytorch_lightning", "src/lightning_fabric",
                                        "src/version.info"), source="src"),
    "torchmetrics": Project("Lightning-AI/torchmetrics", "54a06013cdac4895bf8e85b583c5f220388ebc1d",
                            "Apache-2.0", ("src",), source="src"),
    "lightning-utilities": Project("Lightning-AI/utilities", "5d310d03f87bc3a73aa095d754341a7b8b149eb7", "Apache-2.0", ("src",),
                                   source="src"),
}


# By the name of the module: distribution is what the package is called where it is installed from.
Package = collections.namedtuple("Package", "distribution repository licence")

PACKAGES = {
    "transformers": Package("transformers", "huggingface/transformers", "Apache-2.0"),
    "accelerate": Package("accelerate", "huggingface/accelerate", "Apache-2.0"),
    "peft": Package("peft", "huggingface/peft", "Apache-2.0"),
    "timm": Package("timm", "huggingface/pytorch-image-models", "Apache-2.0"),
    "pytorch_lightning": Package("pytorch-lightning", "Lightning-AI/pytorch-lightning",
                                 "Apache-2.0"),
    "torchvision": Package("torchvision", "pytorch/vision", "BSD-3-Clause"),
    "jax": Package("jax", "jax-ml/jax", "Apache-2.0"),
    "flax": Package("flax", "google/flax", "Apache-2.0"),
    "optax": Package("optax", "google-deepmind/optax", "Apache-2.0"),
}


def versions(modules):
    """{module: version}, as installed."""
    found = {}
    for module in modules:
        try:
            found[module] = importlib.metadata.version(
                PACKAGES[module].distribution if module in PACKAGES else module)
        except importlib.metadata.PackageNotFoundError:
            found[module] = None
    return found


def not_installed(modules):
    """None, or a clause that says which packages this Python has not."""
    absent = [m for m in modules if importlib.util.find_spec(m) is None]
    return "%s not installed" % (", ".join(absent) + (" is" if len(absent) == 1 else " are")) \
        if absent else None


def cache():
    """Where checkouts are."""
    given = os.environ.get("EACGM_OTHERS")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return given or os.path.join(home, "eacgm", "others")


def checkout(name):
    """The folder of a project at its commit, whether it is there or not."""
    return os.path.join(cache(), "%s-%s" % (name, PROJECTS[name].commit[:12]))


def source(name):
    """What belongs on the path of modules."""
    return os.path.join(checkout(name), PROJECTS[name].source)


def missing(names):
    """None, or a clause that says what is to be done first."""
    absent = [name for name in names if not os.path.isdir(checkout(name))]
    if not absent:
        return None
    return "%s not fetched: lab/others/fetch.py %s" % (
        ", ".join(absent) + (" is" if len(absent) == 1 else " are"), " ".join(absent))

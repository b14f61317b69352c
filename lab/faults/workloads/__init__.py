"""The table of workloads. To add one: a script in this folder, and its row here."""

RECORD = ("--layers", "all", "--profile", "cpu,offcpu")
RECORD_GPU = RECORD + ("--gpu-timeline",)
BETWEEN_RANKS = ("net_bandwidth", "net_contention", "net_loss", "straggler", "hang", "gpu_slow")
# No multicast over NVLink: it outlives a crash.
ALONE = {"NCCL_NVLS_ENABLE": "0", "NCCL_IB_DISABLE": "1",
         "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
SOCKETS = dict(ALONE, NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1")


class Workload:
    """traits: cuda, ranks, loader, files (that it reads), disk (in steps), net, model, copies: what
    faults ask for; torch is one of all
    that do not say torch=False. spared: faults that would not touch it. cpus: cores of a rank.
    rate_bits: of the link between ranks that are in network namespaces of their own. chiefly: the
    faults that it is there for, the only ones where time is shared with other workloads (None: all
    but those that are weak: that hardly slow it). projects, modules: what it needs of other
    people's (projects.py), and of Python's packages beside PyTorch. packages: programs of others
    that it runs as they are installed."""

    def __init__(self, name, script, what, traits=(), arguments=(), cpus=4, world=1, gpus=0,
                 rate_bits=0, test_only=False, env=None, chiefly=None, weak=(),
                 benign=("evaluation", "batch_size", "checkpoint"), projects=(), modules=(),
                 packages=(), spared=(), torch=True):
        self.name, self.script, self.what = name, script, what
        self.traits = (*traits, "torch") if torch else traits
        self.arguments, self.cpus, self.world, self.gpus = list(arguments), cpus, world, gpus
        self.rate_bits, self.test_only, self.env = rate_bits, test_only, env
        self.chiefly, self.weak, self.benign = chiefly, weak, benign
        self.projects, self.modules, self.packages = projects, modules, packages
        self.spared = spared
        self.record = RECORD_GPU if gpus else RECORD


LOADER = ("model", "loader")


def of_others(name, project, what, traits=("model",), needed=(), script=None, cpus=1, **more):
    """A program of a public project, by an adapter in others/; it has changes of its own."""
    return Workload(name, "others/%s.py" % (script or name), what, traits, cpus=cpus,
                    projects=(project, *needed), test_only=True, benign=("checkpoint",), **more)


def of_packages(name, packages, what, script, traits=("model",), gpus=1, cpus=1, arguments=(),
                benign=("checkpoint",), **more):
    """A program of packages that are there, by an adapter in others/."""
    device = ("cuda", *traits) if gpus else traits
    words = ("--installed", "--device", "cuda" if gpus else "cpu", *arguments)
    return Workload(name, "others/%s.py" % script, what, device, words, cpus=cpus, gpus=gpus,
                    packages=packages, test_only=True, benign=benign, **more)


TRAINER = ("transformers", "accelerate")
LIGHTNING = ("pytorch_lightning", "timm", "torchvision")
JAX = ("jax", "flax", "optax")

WORKLOADS = {w.name: w for w in (
    Workload("cpu_gpt", "cpu_gpt.py", "a small GPT on the CPU", ("model",), cpus=1),
    Workload("cpu_loader", "cpu_loader.py", "a CNN on the CPU, 2 workers that read files",
             ("model", "loader", "files"), cpus=2, test_only=True),
    Workload("cpu_disk", "cpu_disk.py", "the GPT on texts that it reads from the disk in each step",
             ("model", "disk"), cpus=1),
    Workload("cpu_text", "cpu_text.py", "the GPT on texts of all lengths, gradients added up, "
             "evaluation between", ("model",), cpus=1),
    Workload("cpu_serve", "cpu_serve.py", "the GPT answers requests that come in bursts",
             ("model",), cpus=1, benign=("batch_size", "checkpoint")),
    Workload("cpu_ddp", "ddp.py", "2 ranks on the CPU, gloo over a link of 100 Mbit/s",
             ("model", "ranks", "net"), ("--device", "cpu"), cpus=1, world=2, rate_bits=10**8,
             chiefly=BETWEEN_RANKS),
    Workload("gpt2", "gpt2.py", "GPT-2 124M from scratch", ("cuda", "model"), gpus=1,
             weak=("mem_bandwidth",)),
    Workload("cnn", "cnn.py", "a residual CNN, 4 workers that read files",
             ("cuda", "model", "loader", "files"), cpus=6, gpus=1, weak=("mem_bandwidth",)),
    Workload("features", "features.py", "a perceptron, large batches copied from the host",
             ("cuda", "model", "copies"), gpus=1,
             chiefly=("pcie", "mem_bandwidth", "gpu_contention", "gpu_slow", "alloc_churn",
                      "cuda_delay", "python_gc")),
    Workload("generate", "generate.py", "GPT-2 124M generates, with a KV cache",
             ("cuda", "model"), gpus=1, test_only=True, weak=("mem_bandwidth",),
             benign=("batch_size", "checkpoint")),
    Workload("ddp_nvlink", "ddp.py", "GPT-2 124M on 2 GPUs over NVLink",
             ("cuda", "model", "ranks"), world=2, gpus=2, env=ALONE,
             chiefly=BETWEEN_RANKS + ("gpu_contention", "cpu_contention", "cpu_throttle")),
    Workload("ddp_sockets", "ddp.py", "2 ranks on 2 GPUs, NCCL over a link of 10 Gbit/s",
             ("cuda", "model", "ranks", "net"), ("--blocks", "2"), world=2, gpus=2,
             rate_bits=10**10, env=SOCKETS, chiefly=BETWEEN_RANKS),
    of_others("nanogpt", "nanoGPT", "nanoGPT's train.py, a small GPT"),
    of_others("lstm_lm", "examples", "PyTorch's word_language_model, an LSTM"),
    of_others("mnist", "examples", "PyTorch's mnist, a CNN on pictures made here",
              modules=("torchvision",)),
    of_others("flask_server", "flask-api", "a Flask server classifies pictures, in bursts",
              modules=("flask", "torchvision")),
    of_others("ppo", "cleanrl", "CleanRL's ppo.py on CartPole", needed=("gym",),
              modules=("cloudpickle",)),
    of_others("timm_train", "timm", "timm's train.py, a MobileNet, 2 workers", LOADER,
              modules=("torchvision", "yaml"), cpus=2),
    of_others("timm_script", "timm", "the same, compiled by TorchScript", LOADER,
              script="timm_train", arguments=("--torchscript",), modules=("torchvision", "yaml"),
              cpus=2),
    of_others("lightning_timm", "lightning", "Lightning's Trainer, a timm model, 2 workers", LOADER,
              needed=("torchmetrics", "lightning-utilities", "timm"),
              modules=("torchvision", "tqdm", "fsspec", "yaml"), cpus=2),
    of_others("hf_trainer", "transformers", "Hugging Face's Trainer, BERT on lines of all lengths",
              modules=("filelock", "packaging", "regex", "requests", "tqdm")),
    of_packages("trainer_gpu", TRAINER, "Hugging Face's Trainer, a Llama on texts of all lengths, "
                "2 workers", "llama_trainer", LOADER, cpus=2),
    of_packages("peft_gpu", (*TRAINER, "peft"), "the same, adapters of PEFT alone",
                "llama_trainer", LOADER, cpus=2, arguments=("--lora",)),
    of_packages("peft_wide", (*TRAINER, "peft"), "the same, wide: the GPU has more to do than the "
                "host", "llama_trainer", LOADER, cpus=2, arguments=("--lora", "--wide"),
                chiefly=("gpu_contention", "gpu_slow", "pcie")),
    of_packages("trainer_cpu", TRAINER, "the same on the CPU, without workers", "llama_trainer",
                gpus=0),
    of_packages("lightning_gpu", LIGHTNING, "Lightning's Trainer, a timm "
                "model, 2 workers", "lightning_timm", LOADER, cpus=2),
    of_packages("lightning_cpu", LIGHTNING, "the same on the CPU",
                "lightning_timm", LOADER, cpus=2, gpus=0),
    # Compiled, it calls neither the operators that op_delay replaces nor hooks of its layers.
    of_packages("compile_gpu", ("timm", "torchvision"), "torch.compile of a timm ViT",
                "vit_compile", benign=("evaluation", "checkpoint"), spared=("op_delay", "excess_sync")),
    of_packages("jax_gpu", JAX, "JAX trains a transformer of Flax", "jax_train", torch=False,
                benign=("evaluation", "batch_size", "checkpoint")),
    of_packages("jax_cpu", JAX, "the same on the CPU, 2 threads", "jax_train", gpus=0, cpus=2,
                torch=False, benign=("evaluation", "batch_size", "checkpoint")),
    of_packages("generate_gpu", ("transformers",), "transformers' generate() answers requests "
                "that come in bursts", "llama_generate", benign=("batch_size", "checkpoint")),
)}

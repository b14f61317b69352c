"""Holds deploy/'s manifest against the schemas that Kubernetes publishes, strictly: as the npm
package kubernetes-models has them (tests/kubernetes), which is fetched into the build folder.
Nothing is sent to a cluster: that an API server takes it, and what it defaults, is not shown."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EACGM_BUILD", ROOT / "build"))
HERE = ROOT / "tests/kubernetes"
PACKAGES = ("package.json", "package-lock.json", ".npmrc")
MANIFEST = ROOT / "deploy/kubernetes.yaml"
NPM_SECONDS = 300
FAULTS = (  # what is changed, to what, and what is said of it
    ("      hostPID: true ", "      hostPid: true ", "hostPid"),
    ("terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: thirty",
     "must be integer"),
    ("  selector:\n    matchLabels: {app.kubernetes.io/name: eacgm-agent}\n", "", "selector"),
    ("{name: sys, mountPath: /sys, readOnly: true}", "{name: sys, path: /sys}", "mountPath"),
    ("kind: DaemonSet", "kind: DaemonSets", "DaemonSets"),
)


def get_packages(folder):
    """Why they cannot be had, or None; npm is asked only where what is wanted has changed."""
    stamp = folder / "packages.sha256"
    wanted = hashlib.sha256(b"".join((HERE / p).read_bytes() for p in PACKAGES)).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return None
    if not shutil.which("npm"):
        return "npm is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        shutil.copyfile(HERE / name, folder / name)
    try:
        done = subprocess.run(["npm", "ci", "--no-progress"], cwd=folder, check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=NPM_SECONDS)
    except subprocess.TimeoutExpired:
        return f"npm did not get kubernetes-models in {NPM_SECONDS} s"
    if done.returncode:
        return "npm could not get kubernetes-models"
    stamp.write_text(wanted)
    return None


def faults_of(folder, *manifests):
    """What is wrong, and the objects that were looked at."""
    shutil.copyfile(HERE / "check.mjs", folder / "check.mjs")
    done = subprocess.run(["node", "check.mjs", *map(str, manifests)], cwd=folder, check=False,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return ([line for line in lines if not line.startswith("# ")],
            [line.rsplit(": ", 1)[1] for line in lines if line.startswith("# ")])


def is_as_published(folder):
    faults, objects = faults_of(folder, MANIFEST)
    assert not faults, faults
    assert objects == ["Namespace eacgm", "ConfigMap eacgm-agent", "DaemonSet eacgm-agent"], objects


def faults_are_found(folder):
    text = MANIFEST.read_text()
    changed = [folder / f"changed{n}.yaml" for n in range(len(FAULTS))]
    for path, (what, by, _) in zip(changed, FAULTS):
        assert text.count(what) == 1, what
        path.write_text(text.replace(what, by))
    faults, _ = faults_of(folder, *changed)
    for path, (_, by, said) in zip(changed, FAULTS):
        mine = [line for line in faults if line.startswith(f"{path}: ")]
        assert len(mine) == 1 and said in mine[0], (by, mine)


def main():
    folder = BUILD / "kubernetes"
    why = get_packages(folder)
    if why:
        print(f"1..0 # skip {why}")
        return
    tests = (is_as_published, faults_are_found)
    print(f"1..{len(tests)}")
    failed = False
    for n, fn in enumerate(tests, 1):
        try:
            fn(folder)
            print(f"ok {n} - {fn.__name__.replace('_', ' ')}")
        except AssertionError as e:
            failed = True
            print(f"not ok {n} - {fn.__name__.replace('_', ' ')}\n# {e}")
    sys.exit(failed)


main()

"""protos.py - messages by the official definitions, of which none is written here: Debian's
packages of them, which tools/unpack.sh has unpacked into the build folder (`make setup-traced`), and
Debian's python3-protobuf. What is decoded is decoded strictly. Knows nothing of what messages mean.
"""

import ast
import functools
import glob
import importlib
import os
import subprocess
import tempfile

from harness import skip

UNPACKED = os.path.join(os.environ.get("EACGM_BUILD", ""), "protos/usr")
# open-telemetry/opentelemetry-proto as protoc made Python of it: the definitions are bytes in it
OPENTELEMETRY = os.path.join(UNPACKED, "lib/python3/dist-packages/opentelemetry/proto")
SOURCES = os.path.join(UNPACKED, "share/gocode/src")
INCLUDES = os.path.join(UNPACKED, "include")
PPROF = "github.com/google/pprof/proto/profile.proto"
CRI = "k8s.io/cri-api/pkg/apis/runtime/v1/api.proto"
POD_RESOURCES = "k8s.io/kubelet/pkg/apis/podresources/v1/api.proto"


def opentelemetry_files():
    """What each file defines, a FileDescriptorProto."""
    for path in glob.glob(OPENTELEMETRY + "/**/*_pb2.py", recursive=True):
        with open(path) as f:
            tree = ast.parse(f.read())
        yield from (protobuf().descriptor_pb2.FileDescriptorProto.FromString(node.args[0].value)
                    for node in ast.walk(tree) if isinstance(node, ast.Call) and
                    getattr(node.func, "attr", "") == "AddSerializedFile")


def compiled_files(name):
    """Those of a .proto and of what it imports, as protoc reads them."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", "-I", SOURCES, "-I", INCLUDES, "--include_imports",
                        "--descriptor_set_out", out.name, name], check=True,
                       stderr=subprocess.DEVNULL)
        return protobuf().descriptor_pb2.FileDescriptorSet.FromString(out.read()).file


@functools.cache
def protobuf():
    """None where python3-protobuf is not installed."""
    try:
        for name in ("descriptor_database", "descriptor_pb2", "descriptor_pool", "message_factory"):
            importlib.import_module("google.protobuf." + name)
    except ImportError:
        return None
    return importlib.import_module("google.protobuf")


@functools.cache
def factory(which):
    """The pool of what is defined there, and who makes classes of it."""
    known = protobuf().descriptor_database.DescriptorDatabase()
    for f in opentelemetry_files() if which == "opentelemetry" else compiled_files(which):
        known.Add(f)
    pool = protobuf().descriptor_pool.DescriptorPool(known)
    return pool, protobuf().message_factory.MessageFactory(pool)


def need():
    if not protobuf():
        skip("python3-protobuf is not installed")
    if not os.path.exists(UNPACKED):
        skip("the official definitions could not be had (make setup-traced)")


def message(which, name):
    """The class of a message; which: "opentelemetry" or a file of SOURCES."""
    need()
    pool, made = factory(which)
    return made.GetPrototype(pool.FindMessageTypeByName(name))


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def parts(m):
    """[(field, its values)] of what was said; of a map a dict, of scalars."""
    return [(f, dict(v) if is_map(f) else list(v) if f.label == f.LABEL_REPEATED else [v])
            for f, v in m.ListFields()]


def unknown(m):
    """Of each field that the definition does not have, or has of another type: who has it."""
    found = ["%s has no field %d of the wire type %d" %
             (m.DESCRIPTOR.full_name, u.field_number, u.wire_type) for u in m.UnknownFields()]
    for field, values in parts(m):
        if field.message_type and not is_map(field):
            found += sum(map(unknown, values), [])
    return found


def as_dict(m):
    """{name: value} of what was said; lists and maps are there where the definition has them."""
    found = {f.name: {} if is_map(f) else [] for f in m.DESCRIPTOR.fields
             if f.label == f.LABEL_REPEATED}
    for field, values in parts(m):
        if field.message_type and not is_map(field):
            values = list(map(as_dict, values))
        found[field.name] = values if field.label == field.LABEL_REPEATED else values[0]
    return found


def decode(which, name, data):
    """as_dict of a message that holds all of data and nothing else."""
    m = message(which, name).FromString(data)
    assert not unknown(m), unknown(m)
    # a field that is not repeated and came twice, or said nothing, is not there once more
    assert m.ByteSize() == len(data), "%s: %d bytes of %d" % (name, m.ByteSize(), len(data))
    return as_dict(m)

#!/usr/bin/env python3
"""sections_cli_test.py - the sections of `eacgm report`: ten lines of each, in the order of what
they say, one alone, and all of them in full."""
from cli import RECORDINGS, eacgm, main, test

GPU = RECORDINGS / "v1_gpu.eacgm"
PROFILE = RECORDINGS / "v1_profile.eacgm"


def sections(text):
    """Lists of lines, one for each section; the head is left out."""
    found = [[]]
    for line in text.splitlines():
        if line:
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return found[1:]


def titles(text):
    return [lines[0].split(":")[0] for lines in sections(text)]


@test
def a_section_has_ten_lines_and_says_how_to_see_more(_folder):
    for path in sorted(RECORDINGS.glob("*.eacgm")):
        for lines in sections(eacgm("report", path).stdout):
            assert len(lines) <= 10, (path, lines)
    cut = [s for s in sections(eacgm("report", GPU).stdout) if s[0].startswith("cuda")]
    assert cut[0][-1].strip() == "... and 10 more (--section cuda)", cut


@test
def all_lines_are_there_in_full(_folder):
    full = eacgm("report", GPU, "--full").stdout
    assert "cuStreamEndCapture" in full and "more (" not in full, full
    assert "cuStreamEndCapture" not in eacgm("report", GPU).stdout


@test
def what_is_wrong_comes_first_then_steps_then_where_time_goes(_folder):
    order = titles(eacgm("report", GPU).stdout)
    assert order[:3] == ["events", "steps", "ranks"], order
    assert order.index("cuda") < order.index("torch") < order.index("processes"), order
    order = titles(eacgm("report", PROFILE).stdout)
    assert order[0] == "profile" and order.index("kernels") < order.index("cuda"), order


@test
def one_section_alone_has_all_its_lines(_folder):
    text = eacgm("report", GPU, "--section", "cuda").stdout
    assert text.startswith("\ncuda: 115 calls of 17 functions") and "\n\n" not in text
    assert "cuStreamEndCapture" in text, text
    text = eacgm("report", GPU, "--section", "memory,steps").stdout
    assert [line.split()[0].rstrip(":") for line in text.splitlines() if line
            and not line.startswith(" ")] == ["steps", "memory"], text
    layers = eacgm("report", GPU, "--section", "layers").stdout
    assert "cuda: " in layers and "nccl: " in layers and "steps: " not in layers, layers
    assert len(eacgm("report", GPU, "--section", "cuda", "--top", "2").stdout.splitlines()) == 6


@test
def a_wrong_name_is_told_with_those_that_there_are(_folder):
    said = eacgm("report", GPU, "--section", "steps,nope", status=2).stderr
    assert "there is no section 'nope'" in said and said.count("\n") == 1, said
    for name in ("steps", "kernels", "cuda", "recording"):
        assert name in said, said
    said = eacgm("report", GPU, "--section", "profile", status=1).stderr
    assert "the recording has nothing for section 'profile'; it has" in said, said
    said = eacgm("report", GPU, "--section", "steps", "--json", status=2).stderr
    assert "JSON has all of them" in said, said


@test
def the_users_code_leads_and_start_up_is_left_out(_folder):
    table = [s for s in sections(eacgm("report", PROFILE).stdout) if s[0].startswith("profile")][0]
    names = [line.split("%")[-1].strip() for line in table[2:]]
    assert names[:3] == ["main (train.py:50)", "train (train.py:20)", "Loader.load (train.py:33)"]
    assert not {"_start (python3.12)", "Py_RunMain (python3.12)"} & set(names), names
    full = eacgm("report", PROFILE, "--section", "profile").stdout
    assert "clone3 (libc.so.6)" in full and "[python interpreter]" in full, full


if __name__ == "__main__":
    main()

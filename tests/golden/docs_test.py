"""The pages: each link leads to a page and a heading that exist, pages that the sources name exist,
files that README.md of a folder of sources names exist, the index has every page, every cause has
its block with the program's words, and lines are short enough to be read in a terminal. Needs no
root, no network: links to other sites are not opened. Prints TAP.
"""
import re
import subprocess
import sys

from cli import ROOT, main, test

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
NAMED = re.compile(r"(?<![\w/.])docs/[\w/-]+\.(?:md|svg|png)")
FILE = re.compile(r"`(?!cmd_x\b)([\w/*-]+\.(?:[ch]|py|cc|sh))`")
MOST_COLUMNS = 100
CAUSE = re.compile(r"\bX\([A-Z_]+, (?!name\b)(\w+)\)")  # of the list in causes.h
STRING = r'"((?:[^"\\]|\\.)*)"'
CAUSE_TEXT = re.compile(r"\[CAUSE_(\w+)\]\s*=\s*\{((?:%s|[^{}\"])*)\}" % STRING)


def tracked():
    """Paths below ROOT, whether it is a clone or a copy of the files."""
    try:
        said = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-co",
                               "--exclude-standard"], capture_output=True, text=True, check=True)
        paths = [ROOT / name for name in said.stdout.splitlines()]
    except (OSError, subprocess.CalledProcessError):
        paths = [p for p in ROOT.rglob("*") if "build" not in p.parts]
    return [p for p in paths if p.is_file()]


def pages():
    return [p for p in tracked() if p.suffix == ".md"]


def outside_code(text):
    """The lines of a page that are not of a block of code, with their numbers."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(page):
    """As code forges make them of headings: the second of a name has -1 after it."""
    seen = {}
    for _, line in outside_code(page.read_text()):
        if line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
            seen[words] = seen.get(words, -1) + 1
            yield words if not seen[words] else f"{words}-{seen[words]}"


@test
def every_link_leads_somewhere(folder):
    wrong = []
    for page in pages():
        for number, line in outside_code(page.read_text()):
            for link, anchor in LINK.findall(line):
                if "://" in link:
                    continue
                to = (page.parent / link).resolve() if link else page
                if not to.exists() or (anchor and to.suffix == ".md" and
                                       anchor not in set(anchors(to))):
                    wrong.append(f"{page.relative_to(ROOT)}:{number}: {link}#{anchor}")
    assert not wrong, "\n# ".join(wrong)


@test
def pages_that_sources_name_exist(folder):
    wrong = []
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in NAMED.findall(text)
                  if not (ROOT / name).exists()]
    assert not wrong, "\n# ".join(wrong)


@test
def files_that_folders_of_sources_tell_of_exist(folder):
    wrong = []
    for page in (p for p in pages() if p.name == "README.md" and p.parent.parent == ROOT / "src"):
        wrong += [f"{page.relative_to(ROOT)}: {name}" for name in FILE.findall(page.read_text())
                  if not any(next(where.glob(name), None)
                             for where in (ROOT, ROOT / "src", *(ROOT / "src").glob("*/")))]
    assert not wrong, "\n# ".join(wrong)


@test
def the_index_has_every_page(folder):
    index = ROOT / "docs/README.md"
    linked = {(index.parent / link).resolve() for link, _ in LINK.findall(index.read_text())}
    missing = [str(p.relative_to(ROOT)) for p in pages()
               if ROOT / "docs" in p.parents and p != index and p not in linked]
    assert not missing, missing


def words_of_causes():
    """{id of a cause: (its title, its advice)}, as the program has them."""
    ids = CAUSE.findall((ROOT / "src/incident/causes.h").read_text())
    said = {}
    for name, row, _ in CAUSE_TEXT.findall((ROOT / "src/incident/cause_words.c").read_text()):
        texts = [""]
        for text, comma in re.findall(STRING + "|(,)", row):
            texts = [*texts, ""] if comma else [*texts[:-1], texts[-1] + text]
        said[name.lower()] = tuple(t for t in texts if t)
    return {i: said[i] for i in ids}


@test
def every_cause_has_its_block(folder):
    page = (ROOT / "docs/causes.md").read_text()
    blocks = {i: " ".join(text.split()) for i, text in re.findall(
        r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.S | re.M)}
    causes = words_of_causes()
    assert len(causes) > 30 and sorted(causes) == sorted(blocks), set(causes) ^ set(blocks)
    for i, (title, advice) in causes.items():
        assert f"**{title[0].upper()}{title[1:]}.**" in blocks[i], f"{i}: not its title, {title}"
        assert f"- **Do**: {advice}" in blocks[i], f"{i}: not its advice, {advice}"
        assert "- **Decided by**: " in blocks[i], f"{i}: not what decides it"
        assert "```" in blocks[i] or "recorded" in blocks[i], f"{i}: no example, and not why"


@test
def lines_of_pages_are_short(folder):
    long = []
    for page in pages():
        if ROOT / "docs" not in page.parents and page.parent != ROOT:
            continue
        for number, line in outside_code(page.read_text()):
            if len(line) > MOST_COLUMNS and not line.lstrip().startswith(("|", "![")) and \
                    " " in line.strip():
                long.append(f"{page.relative_to(ROOT)}:{number}: {len(line)} columns")
    assert not long, "\n# ".join(long[:20])


if __name__ == "__main__":
    sys.exit(main())

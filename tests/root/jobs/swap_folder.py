"""swap_folder.py PATH ELSEWHERE UID - as that user, makes PATH a folder and a link to ELSEWHERE by
turns, as fast as it can, until it is ended: whoever looks at PATH and then opens it may come to
another place. Prints "ready" when it has begun."""
import os
import sys

path, elsewhere, uid = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
os.mkdir(path + ".folder")
os.symlink(elsewhere, path + ".link")
print("ready", flush=True)
while True:
    for kind in (".folder", ".link"):
        os.rename(path + kind, path)
        os.rename(path, path + kind)

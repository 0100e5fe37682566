# Runs a program under a filter that answers these system calls (numbers, with commas between) with EPERM.
import ctypes, os, struct, sys

numbers, command = sys.argv[1].split(","), sys.argv[2:]


def step(code, if_true, value):
    return struct.pack("HBBI", code, if_true, 0, int(value))


load = step(0x20, 0, 0)
checks = [step(0x15, len(numbers) - i, number) for i, number in enumerate(numbers)]
program = load + b"".join(checks) + step(0x06, 0, 0x7FFF0000) + step(0x06, 0, 0x00050001)
room = ctypes.create_string_buffer(program)


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
filter = Program(len(program) // 8, ctypes.addressof(room))
NO_NEW_PRIVS, SECCOMP, MODE_FILTER = 38, 22, 2
for call in [(NO_NEW_PRIVS, 1, 0, 0, 0), (SECCOMP, MODE_FILTER, ctypes.byref(filter))]:
    if libc.prctl(*call):
        sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
os.execvp(command[0], command)

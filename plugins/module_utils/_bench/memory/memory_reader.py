# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A C program that measures read bandwidth on given CPUs, for hosts without likwid-bench; compiled on the host.

Each thread is pinned to a CPU, fills its own memory, and reads it until the time is over. So the memory policy of the
process decides on which nodes the pages are. The rate is the bytes that all threads read, divided by the time.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from ..._errors import Absent, TuningError
from ..._io import command, textfile
from .likwid import last_twenty_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COMPILERS = ("cc", "gcc", "clang")
#: With these flags the compiler vectorizes the inner loop with 256 bits on every Zen.
FLAGS = ("-O3", "-march=native", "-mprefer-vector-width=256", "-pthread")
RUNS = 5
MILLISECONDS = 300
#: Timeout in seconds of filling the memory and of five runs, which take far less on any host.
SECONDS = 300
#: Where the program may be when the folder of temporary files is mounted with noexec, as on many hardened hosts.
FOLDERS_BESIDE_TMP = ("/var/tmp", "/var/lib", "/root")

#: The program. Its arguments are the number of runs, milliseconds of a run, bytes of a thread, and a CPU for each
#: thread. Its output is the GB/s of each run.
SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { BLOCK = 1 << 17 }; /* numbers between two looks at the clock: 1 MiB */

struct reader {
    pthread_t thread;
    int cpu;
    double rate;
};

static pthread_barrier_t all;
static int runs;
static double seconds;
static size_t count;
static volatile uint64_t sink;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static uint64_t sum(const uint64_t *numbers)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i < BLOCK / 4; i++) {
        a += numbers[i];
        b += numbers[i + BLOCK / 4];
        c += numbers[i + BLOCK / 2];
        d += numbers[i + BLOCK / 4 * 3];
    }
    return a + b + c + d;
}

static void *work(void *given)
{
    struct reader *self = given;
    cpu_set_t *set = CPU_ALLOC(self->cpu + 1);
    size_t size = CPU_ALLOC_SIZE(self->cpu + 1);
    CPU_ZERO_S(size, set);
    CPU_SET_S(self->cpu, size, set);
    int error = pthread_setaffinity_np(pthread_self(), size, set);
    if (error) {
        fprintf(stderr, "cannot run on CPU %d: %s\n", self->cpu, strerror(error));
        exit(1);
    }
    uint64_t *numbers = mmap(NULL, count * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (numbers == MAP_FAILED) {
        perror("cannot get memory");
        exit(1);
    }
    for (size_t i = 0; i < count; i++)
        numbers[i] = i;
    uint64_t total = 0;
    for (int run = 0; run < runs; run++) {
        pthread_barrier_wait(&all);
        double begin = now(), end = begin;
        size_t blocks = 0, at = 0;
        while (end - begin < seconds) {
            total += sum(numbers + at);
            at = at + 2 * BLOCK > count ? 0 : at + BLOCK;
            blocks++;
            end = now();
        }
        self->rate = 8e-9 * BLOCK * blocks / (end - begin);
        pthread_barrier_wait(&all);
        pthread_barrier_wait(&all);
    }
    sink = total;
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc - 4;
    if (threads < 1)
        return 2;
    runs = atoi(argv[1]);
    seconds = atoi(argv[2]) / 1e3;
    count = strtoull(argv[3], NULL, 10) / 8;
    struct reader *readers = calloc(threads, sizeof *readers);
    if (!readers || count < BLOCK || pthread_barrier_init(&all, NULL, threads + 1))
        return 2;
    for (int i = 0; i < threads; i++) {
        readers[i].cpu = atoi(argv[4 + i]);
        if (pthread_create(&readers[i].thread, NULL, work, &readers[i]))
            return 2;
    }
    for (int run = 0; run < runs; run++) {
        double rate = 0;
        pthread_barrier_wait(&all);
        pthread_barrier_wait(&all);
        for (int i = 0; i < threads; i++)
            rate += readers[i].rate;
        printf("%.3f\n", rate);
        pthread_barrier_wait(&all);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(readers[i].thread, NULL);
    return 0;
}
"""


def measure_fastest_read_gbps(
    cpus: Iterable[int], size: int, policy: Sequence[str] = (), milliseconds: int = MILLISECONDS
) -> float:
    """Compile and run the program; return the GB/s of all CPUs together in the fastest run.

    ``size`` are the bytes of each thread. ``policy`` is a command that sets the memory policy and runs another command,
    such as numactl with its options. Absent where there is no compiler, TuningError where the program fails.
    """
    compiler = next((name for name in COMPILERS if shutil.which(name, path=command.PATH)), None)
    if compiler is None:
        raise Absent(f"There is no C compiler in {command.PATH}; on Debian and Ubuntu, 'apt install gcc' brings one.")
    with tempfile.TemporaryDirectory(prefix="sovereign-epyc-", dir=find_folder_of_programs()) as folder:
        source, program = (os.path.join(folder, name) for name in ("reader.c", "reader"))
        textfile.write_file(source, SOURCE)
        command.run_command([compiler, *FLAGS, "-o", program, source])
        numbers = [RUNS, milliseconds, size, *cpus]
        done = command.try_command([*policy, program, *map(str, numbers)], SECONDS)
    try:
        rates = [float(line) for line in done.out.split()]
    except ValueError:
        rates = []
    if done.code != 0 or len(rates) != RUNS:
        words = last_twenty_words(done.err or done.out)
        raise TuningError(f"The reader of memory failed with exit code {done.code}. It says: {words}")
    return max(rates)


def find_folder_of_programs() -> str:
    """Return a folder whose mount lets programs run; TuningError where neither TMPDIR nor another folder does."""
    folders = (tempfile.gettempdir(), *FOLDERS_BESIDE_TMP)
    for folder in folders:
        if os.path.isdir(folder) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
            return folder
    raise TuningError(
        f"A program has to be compiled and run, and {', '.join(folders)} are all mounted with noexec. Set TMPDIR to a "
        "folder that is not."
    )

/* A disk that takes as long as it is told to: a regular file, for a loop device.
 *
 *   device CONTENT FILE RATE LATENCY SEEK
 *
 * Mounts itself (FUSE) on FILE, which then has the size and bytes of CONTENT, and runs until it is
 * unmounted. RATE is in bytes a second, LATENCY and SEEK in microseconds. With SEEK 0 it answers each
 * request LATENCY after its bytes went over the bus, however many wait: a disk without moving parts. Otherwise
 * it has one head, which serves who is next on its way in one direction, and needs SEEK to get to where it
 * does not pass by within 1 MiB. It keeps nothing of what is written to itself.
 *
 * Needs root. It should run before everything else (chrt), or it is the processor that is measured.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define LARGEST (1 << 20)
#define PASSED_BY (1 << 20)

struct waiting {
    struct waiting *next;
    struct fuse_in_header head;
    unsigned long long at, bytes, done;
    char body[];
};

static int fuse;
static char *content;
static unsigned long long size, rate, latency, seek, bus, place;
static struct waiting *queue, *served;

static unsigned long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void answer(unsigned long long unique, int error, const void *what, size_t bytes) {
    struct fuse_out_header out = {.len = sizeof out + bytes, .error = -error, .unique = unique};
    struct iovec parts[] = {{&out, sizeof out}, {(void *)what, bytes}};
    if (writev(fuse, parts, 2) < 0 && errno != ENOENT) perror("device: answer");
}

static struct fuse_attr attributes(void) {
    return (struct fuse_attr){.ino = 1, .size = size, .blocks = size / 512, .mode = S_IFREG | 0600, .nlink = 1, .blksize = 4096};
}

/* What is asked, if it takes no time. */
static int at_once(struct fuse_in_header *in, char *body) {
    struct fuse_init_in *init = (void *)body;
    struct fuse_init_out hello = {.major = 7, .minor = 31, .max_readahead = init->max_readahead,
        .flags = init->flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES | FUSE_PARALLEL_DIROPS),
        .max_background = 128, .congestion_threshold = 128, .max_write = LARGEST, .time_gran = 1, .max_pages = LARGEST / 4096};
    struct fuse_attr_out attr = {.attr_valid = 3600, .attr = attributes()};
    struct fuse_open_out open = {.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES};
    struct fuse_statfs_out fs = {.st = {.bsize = 4096, .frsize = 4096, .namelen = 255}};
    switch (in->opcode) {
    case FUSE_READ: case FUSE_WRITE: return 0;
    case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: break;
    case FUSE_INIT: answer(in->unique, 0, &hello, sizeof hello); break;
    case FUSE_GETATTR: case FUSE_SETATTR: answer(in->unique, 0, &attr, sizeof attr); break;
    case FUSE_OPEN: answer(in->unique, 0, &open, sizeof open); break;
    case FUSE_STATFS: answer(in->unique, 0, &fs, sizeof fs); break;
    case FUSE_RELEASE: case FUSE_FLUSH: case FUSE_FSYNC: case FUSE_ACCESS: answer(in->unique, 0, 0, 0); break;
    case FUSE_FALLOCATE: answer(in->unique, EOPNOTSUPP, 0, 0); break;
    default: answer(in->unique, ENOSYS, 0, 0);
    }
    return 1;
}

static void ask(void) {
    static char buffer[LARGEST + 8192];
    ssize_t came = read(fuse, buffer, sizeof buffer);
    if (came < 0 && errno == ENODEV) exit(0); /* unmounted */
    struct fuse_in_header *in = (void *)buffer;
    if (came < (ssize_t)sizeof *in || at_once(in, buffer + sizeof *in)) return;
    struct waiting *w = malloc(sizeof *w + came);
    *w = (struct waiting){.head = *in};
    memcpy(w->body, buffer + sizeof *in, came - sizeof *in);
    struct fuse_read_in *asked = (void *)w->body; /* begins like fuse_write_in */
    w->at = asked->offset < size ? asked->offset : size;
    w->bytes = asked->size < size - w->at ? asked->size : size - w->at;
    struct waiting **end = &queue;
    while (*end) end = &(*end)->next;
    *end = w;
}

/* Who is served next: the first, or with a head the next on its way. */
static struct waiting *choose(void) {
    struct waiting **best = &queue;
    for (struct waiting **w = &queue; seek && *w; w = &(*w)->next)
        if ((*w)->at - place < (*best)->at - place) best = w; /* behind the head is far, unsigned */
    struct waiting *chosen = *best;
    *best = chosen->next;
    chosen->next = 0;
    return chosen;
}

static void serve(void) {
    while (queue && !(seek && served)) {
        struct waiting *w = choose();
        unsigned long long gap = w->at - place, start = now();
        if (start < bus) start = bus;
        if (seek) start += gap > PASSED_BY ? seek : gap * 1000000000ULL / rate;
        bus = start + w->bytes * 1000000000ULL / rate;
        w->done = bus + latency;
        place = w->at + w->bytes;
        struct waiting **end = &served;
        while (*end) end = &(*end)->next;
        *end = w;
    }
}

static void finish(void) {
    while (served && served->done <= now()) {
        struct waiting *w = served;
        served = w->next;
        if (w->head.opcode == FUSE_READ) {
            answer(w->head.unique, 0, content + w->at, w->bytes);
        } else {
            struct fuse_write_out out = {.size = w->bytes};
            memcpy(content + w->at, w->body + sizeof(struct fuse_write_in), w->bytes);
            answer(w->head.unique, 0, &out, sizeof out);
        }
        free(w);
    }
}

int main(int argc, char **argv) {
    struct stat st;
    int file = argc == 6 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
    if (file < 0 || fstat(file, &st)) return fprintf(stderr, "device CONTENT FILE RATE LATENCY SEEK\n"), 2;
    size = st.st_size, rate = atoll(argv[3]), latency = atoll(argv[4]) * 1000, seek = atoll(argv[5]) * 1000;
    content = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    char how[64];
    snprintf(how, sizeof how, "fd=%d,rootmode=100000,user_id=0,group_id=0", fuse);
    if (content == MAP_FAILED || fuse < 0 || mount("device", argv[2], "fuse", 0, how))
        return perror("device"), 1;
    prctl(PR_SET_TIMERSLACK, 1);
    if (daemon(1, 1)) return perror("device"), 1;
    for (;;) {
        struct pollfd asked = {.fd = fuse, .events = POLLIN};
        struct timespec until = {0};
        if (served) {
            unsigned long long t = now(), rest = served->done > t ? served->done - t : 0;
            until = (struct timespec){rest / 1000000000, rest % 1000000000};
        }
        if (ppoll(&asked, 1, served ? &until : 0, 0) > 0) ask();
        if (asked.revents & POLLERR) return 0; /* unmounted */
        finish();
        serve();
        finish();
    }
}

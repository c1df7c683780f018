/* A disk that fails, hangs or is watched, for the audit spool of one process: preloaded with LD_PRELOAD.
 *
 * Of calls on files below DISK_FAULTS_UNDER. DISK_FAULTS_RULES names a file of lines
 *     <call> <what> <number>          call: write, fsync; what: fail <errno>, hang 0, slow <ms>, torn <bytes>
 * read at each call, so that a test changes them while the process runs. `hang` ends when its line is gone.
 * `torn` writes so many bytes, and fails with ENOSPC from then on. DISK_FAULTS_TOLD gets a line "<call> <what>"
 * at each fault. DISK_FAULTS_TRACE gets every change of the file system, for tests.support.disk_model:
 *     <op> <length of path> <path> <number> <length of data> <data>, in text, the data raw, then a newline. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static ssize_t raw_write(int fd, const void *data, size_t size) { return syscall(SYS_write, fd, data, size); }

static int ours(const char *path) {
    const char *under = getenv("DISK_FAULTS_UNDER");
    return under && path && strncmp(path, under, strlen(under)) == 0;
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return ours(path);
}

struct part {
    const void *data;
    size_t size;
};

static void append(const char *where, const struct part *parts, int n) {
    const char *name = getenv(where);
    if (!name) return;
    int fd = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (int i = 0; i < n; i++) raw_write(fd, parts[i].data, parts[i].size);
    syscall(SYS_close, fd);
}

static void trace(const char *op, const char *path, long number, const void *data, size_t size) {
    if (!getenv("DISK_FAULTS_TRACE")) return;
    char head[PATH_MAX + 64];
    int length = snprintf(head, sizeof head, "%s %zu %s %ld %zu ", op, strlen(path), path, number, size);
    struct part parts[] = {{head, length}, {data, size}, {"\n", 1}};
    pthread_mutex_lock(&turn);
    append("DISK_FAULTS_TRACE", parts, 3);
    pthread_mutex_unlock(&turn);
}

/* The rule for a call, 0 for none. */
static int rule(const char *call, char *what, long *number) {
    const char *name = getenv("DISK_FAULTS_RULES");
    if (!name) return 0;
    int fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY, 0);
    if (fd < 0) return 0;
    char text[1024];
    ssize_t size = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    text[size > 0 ? size : 0] = 0;
    char *rest = NULL, asked[32];
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (sscanf(line, "%31s %31s %ld", asked, what, number) == 3 && strcmp(asked, call) == 0) return 1;
    return 0;
}

static void told(const char *call, const char *what) {
    char line[96];
    int length = snprintf(line, sizeof line, "%s %s\n", call, what);
    struct part parts[] = {{line, length}};
    append("DISK_FAULTS_TOLD", parts, 1);
}

static void pause_ms(long ms) {
    struct timespec time = {ms / 1000, (ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

/* 0: go on; an errno: fail with it. `torn`: bytes to write before that, or -1. */
static int fault(const char *call, long *torn) {
    static long left = -1;
    char what[32];
    long number;
    *torn = -1;
    if (!rule(call, what, &number)) {
        if (strcmp(call, "write") == 0) left = -1;
        return 0;
    }
    told(call, what);
    if (strcmp(what, "fail") == 0) return (int)number;
    if (strcmp(what, "slow") == 0) pause_ms(number);
    if (strcmp(what, "torn") == 0) {
        if (left == 0) return ENOSPC;
        *torn = number;
        left = 0;
    }
    while (strcmp(what, "hang") == 0 && rule(call, what, &number)) pause_ms(5);
    return 0;
}

ssize_t write(int fd, const void *data, size_t size) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return raw_write(fd, data, size);
    long torn;
    int error = fault("write", &torn);
    if (error) return errno = error, -1;
    if (torn >= 0 && (size_t)torn < size) size = torn;
    ssize_t written = raw_write(fd, data, size);
    if (written > 0) trace("write", path, 0, data, written);
    return written;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    char path[PATH_MAX];
    ssize_t written = syscall(SYS_pwrite64, fd, data, size, offset);
    if (written > 0 && path_of(fd, path)) trace("pwrite", path, offset, data, written);
    return written;
}

int fsync(int fd) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return syscall(SYS_fsync, fd);
    long torn;
    int error = fault("fsync", &torn);
    if (error) {
        trace("fsync-failed", path, 0, "", 0);
        return errno = error, -1;
    }
    int result = syscall(SYS_fsync, fd);
    if (result == 0) trace("fsync", path, 0, "", 0);
    return result;
}

int ftruncate64(int fd, off64_t size) {
    char path[PATH_MAX];
    int result = syscall(SYS_ftruncate, fd, size);
    if (result == 0 && path_of(fd, path)) trace("truncate", path, size, "", 0);
    return result;
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    struct stat before;
    int is_new = ours(path) && stat(path, &before) < 0;
    int fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && is_new) trace("create", path, 0, "", 0);
    else if (fd >= 0 && ours(path) && flags & O_TRUNC) trace("truncate", path, 0, "", 0);
    return fd;
}

int rename(const char *from, const char *to) {
    int result = syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    if (result == 0 && ours(from)) trace("rename", from, 0, to, strlen(to));
    return result;
}

int unlink(const char *path) {
    int result = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (result == 0 && ours(path)) trace("unlink", path, 0, "", 0);
    return result;
}

int mkdir(const char *path, mode_t mode) {
    int result = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (result == 0 && ours(path)) trace("mkdir", path, 0, "", 0);
    return result;
}

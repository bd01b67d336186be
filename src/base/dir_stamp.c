/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/dir_stamp.h"

#include "base/clock.h"
#include "base/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* File systems take their times from a clock with a tick of at most 10 ms, and some, such as ext4
 * with small inodes, keep whole seconds of it. */
#define SETTLING_NS ((int64_t)(50 * NS_PER_MS))
#define SETTLING_WHOLE_S ((int64_t)(2 * NS_PER_S))

/* A share of the network may keep the times of its entries for a while, or have none. */
static bool is_local(const struct statfs *fs) {
        switch ((unsigned long)fs->f_type) {
        case EXT4_SUPER_MAGIC:
        case XFS_SUPER_MAGIC:
        case BTRFS_SUPER_MAGIC:
        case F2FS_SUPER_MAGIC:
        case OVERLAYFS_SUPER_MAGIC:
        case TMPFS_MAGIC:
                return true;
        default:
                return false;
        }
}

static int64_t to_ns(const struct timespec *t) {
        return (int64_t)t->tv_sec * (int64_t)NS_PER_S + t->tv_nsec;
}

static bool read_stamp(int fd, struct dir_stamp *ret) {
        struct stat   st;
        struct statfs fs;

        if (fstat(fd, &st) != 0 || fstatfs(fd, &fs) != 0)
                return false;
        *ret = (struct dir_stamp){ .device = st.st_dev,
                                   .inode = st.st_ino,
                                   .modified_ns = to_ns(&st.st_mtim),
                                   .changed_ns = to_ns(&st.st_ctim),
                                   .is_local = is_local(&fs) };
        return true;
}

struct error *dir_stamp_read(const char *path, struct dir_stamp *ret) {
        struct error *err = NULL;
        int           fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);

        if (fd < 0)
                return error_errno(errno, "unable to open directory '%s'", path);
        if (!read_stamp(fd, ret))
                err = error_errno(errno, "unable to look at directory '%s'", path);
        close(fd);
        return err;
}

bool dir_stamp_is_equal(const struct dir_stamp *a, const struct dir_stamp *b) {
        return a->device == b->device && a->inode == b->inode &&
               a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns &&
               a->is_local == b->is_local;
}

static bool is_past(int64_t time_ns, uint64_t wall_ns) {
        int64_t settling_ns = time_ns % (int64_t)NS_PER_S == 0 ? SETTLING_WHOLE_S : SETTLING_NS;

        return time_ns + settling_ns < (int64_t)wall_ns;
}

bool dir_stamp_is_settled(const struct dir_stamp *s, uint64_t wall_ns) {
        return s->is_local && is_past(s->modified_ns, wall_ns) && is_past(s->changed_ns, wall_ns);
}

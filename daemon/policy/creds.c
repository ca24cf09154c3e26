#include "policy/creds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

enum { CGROUP_MAX = 4096, GROUPS_FEW = 64 };

/* ---- groups --------------------------------------------------------- */

static int
gid_compare(const void *a, const void *b)
{
	gid_t x = *(const gid_t *)a, y = *(const gid_t *)b;

	return (x > y) - (x < y);
}

void
creds_sort(struct creds *creds)
{
	if (creds->n_groups > 1)
		qsort(creds->groups, creds->n_groups, sizeof(gid_t),
			gid_compare);
}

bool
creds_in_group(const struct creds *creds, gid_t gid)
{
	if (creds->uid == (uid_t)-1)
		return false;
	return creds->gid == gid ||
	       (creds->n_groups && bsearch(&gid, creds->groups, creds->n_groups,
					   sizeof(gid_t), gid_compare));
}

static int
groups_keep(struct creds *creds, const gid_t *groups, size_t n)
{
	if (!n)
		return 0;
	creds->groups =
		FAULT(creds_groups) ? NULL : malloc(n * sizeof(*groups));
	if (!creds->groups)
		return err_raise(-ENOMEM);
	memcpy(creds->groups, groups, n * sizeof(*groups));
	creds->n_groups = (uint32_t)n;
	creds_sort(creds);
	return 0;
}

/* The kernel says how much room it wants if there is too little. */
static int
read_groups(struct creds *creds, int fd)
{
	gid_t few[GROUPS_FEW], *many;
	socklen_t size = sizeof(few);
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, few, &size) == 0)
		return groups_keep(creds, few, size / sizeof(gid_t));
	if (errno != ERANGE || size > CREDS_GROUPS_MAX * sizeof(gid_t))
		return 0;
	many = malloc(size);
	if (!many)
		return err_raise(-ENOMEM);
	r = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, many, &size) == 0)
		r = groups_keep(creds, many, size / sizeof(gid_t));
	free(many);
	return r;
}

/* ---- the unit ------------------------------------------------------- */

static bool
is_unit(const char *part, size_t size)
{
	static const char *const ends[] = {".service", ".scope"};

	for (size_t i = 0; i < 2; i++) {
		size_t end = strlen(ends[i]);

		if (size > end && !memcmp(part + size - end, ends[i], end))
			return true;
	}
	return false;
}

/* One that is too long has no name here, and what is below it none either. */
static void
keep_unit(const char *part, size_t n, char *out, size_t size)
{
	if (n >= size || n > CREDS_UNIT_MAX)
		n = 0;
	memcpy(out, part, n);
	out[n] = '\0';
}

static bool
is_manager_of(const char *unit, uid_t uid)
{
	char name[64];

	snprintf(name, sizeof(name), "user@%u.service", (unsigned)uid);
	return strcmp(unit, name) == 0;
}

/* The path of the only hierarchy that counts, or NULL. */
static const char *
cgroup_path(const char *text)
{
	while (strncmp(text, "0::", 3) != 0) {
		text = strchr(text, '\n');
		if (!text)
			return NULL;
		text++;
	}
	return text + 3;
}

/* Below its unit whoever runs there makes cgroups as he likes, of any name: so
 * it is the outermost. Below our own user's manager it is he who does. */
void
creds_unit_of(const char *text, uid_t own, char *out, size_t size)
{
	const char *part = cgroup_path(text);

	out[0] = '\0';
	while (part && *part == '/') {
		size_t n;

		/* systemd puts a `_` before what the kernel might name so */
		part += part[1] == '_' ? 2 : 1;
		n = strcspn(part, "/\n");
		if (is_unit(part, n)) {
			keep_unit(part, n, out, size);
			if (!is_manager_of(out, own))
				return;
		}
		part += n;
	}
}

/* Is the process still there? Then its pid has been its own until now. */
static bool
pidfd_lives(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

/* @uid: of a process of that user alone, for one that has got the pid since may
 * be another's; (uid_t)-1: of any. */
static ssize_t
read_cgroup(pid_t pid, uid_t uid, char *out, size_t size)
{
	char path[64];
	struct stat st;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && (uid == (uid_t)-1 || st.st_uid == uid))
		n = read(fd, out, size - 1);
	close(fd);
	if (n >= 0)
		out[n] = '\0';
	return n;
}

static int
read_unit(struct creds *creds, int fd, pid_t pid)
{
	char text[CGROUP_MAX], unit[CREDS_UNIT_MAX + 1];
	socklen_t size = sizeof(int);
	int pidfd = -1;
	bool known = pid > 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size))
		pidfd = -1;
	/* Without a pidfd, a process that hides from its own user is not
	 * looked at: it is shown as root's. */
	if (known)
		known = read_cgroup(pid, pidfd >= 0 ? (uid_t)-1 : creds->uid,
				text, sizeof(text)) > 0;
	if (pidfd >= 0) {
		known = known && pidfd_lives(pidfd);
		close(pidfd);
	}
	if (!known)
		return 0;
	creds_unit_of(text, geteuid(), unit, sizeof(unit));
	if (!unit[0])
		return 0;
	creds->unit = strdup(unit);
	return creds->unit ? 0 : err_raise(-ENOMEM);
}

/* ---- all of it ------------------------------------------------------ */

int
creds_read(struct creds *creds, int fd, unsigned asks, pid_t *pid)
{
	struct ucred cred = {.pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1};
	socklen_t size = sizeof(cred);
	int r = 0;

	memset(creds, 0, sizeof(*creds));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size))
		cred = (struct ucred){0, (uid_t)-1, (gid_t)-1};
	creds->uid = cred.uid;
	creds->gid = cred.gid;
	*pid = cred.pid;
	if (asks & CREDS_GROUPS)
		r = read_groups(creds, fd);
	if (!r && asks & CREDS_UNIT)
		r = read_unit(creds, fd, cred.pid);
	if (r)
		creds_deinit(creds);
	return err_pass(r);
}

void
creds_deinit(struct creds *creds)
{
	free(creds->groups);
	free(creds->unit);
	*creds = (struct creds){.uid = (uid_t)-1, .gid = (gid_t)-1};
}

int
creds_copy(struct creds *to, const struct creds *from)
{
	*to = (struct creds){.uid = from->uid, .gid = from->gid};
	if (groups_keep(to, from->groups, from->n_groups))
		return -ENOMEM;
	if (!from->unit)
		return 0;
	to->unit = strdup(from->unit);
	if (to->unit)
		return 0;
	creds_deinit(to);
	return err_raise(-ENOMEM);
}

bool
creds_equal(const struct creds *a, const struct creds *b)
{
	if (a->uid != b->uid || a->gid != b->gid ||
		a->n_groups != b->n_groups || !a->unit != !b->unit)
		return false;
	if (a->unit && strcmp(a->unit, b->unit) != 0)
		return false;
	return !a->n_groups ||
	       !memcmp(a->groups, b->groups, a->n_groups * sizeof(*a->groups));
}

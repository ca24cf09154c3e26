/* bind --exec: one command for one event. The payload is given in a file in
 * memory, not a pipe: the command may leave it unread, and nobody waits for
 * anybody. The command is a process group of its own, so that signals reach
 * all of it. See bind.h. One thread. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bind.h"

enum {
	KILL_AFTER_MS = 5000, /* from a stop signal to SIGKILL */
	OUTPUT_STEP = 65536,  /* bytes */
	N_VARIABLES = 8,
};

/* A running command. */
struct run {
	struct bind *bind;
	struct outcome *outcome;
	pid_t pid;
	int in_fd, out_read, out_write; /* -1: closed */
	size_t max;                     /* of the output's memory */
	bool ended;
};

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- environment ---- */

static const char *const variable_names[N_VARIABLES] = {"EVENTD_ALIAS",
	"EVENTD_EVENT", "EVENTD_ID", "EVENTD_FROM", "EVENTD_ATTEMPT",
	"EVENTD_CALL", "EVENTD_DEADLINE_MS", "EVENTD_SOCKET"};

static bool
is_ours(const char *entry)
{
	size_t n;

	for (size_t i = 0; i < N_VARIABLES; i++) {
		n = strlen(variable_names[i]);
		if (strncmp(entry, variable_names[i], n) == 0 &&
			entry[n] == '=')
			return true;
	}
	return false;
}

__attribute__((format(printf, 2, 3))) static void
add_variable(char ***next, const char *format, ...)
{
	char *text;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) >= 0)
		*(*next)++ = text;
	va_end(ap);
}

static void
add_variables(struct bind *b, const struct evd_event *event, char ***next)
{
	const char *socket = evd_socket(b->ctl->evd);

	add_variable(next, "EVENTD_ALIAS=%s", evd_event_alias(event));
	add_variable(next, "EVENTD_EVENT=%s", evd_event_name(event));
	add_variable(next, "EVENTD_ID=%" PRIu64, evd_event_id(event));
	add_variable(next, "EVENTD_FROM=%" PRIu64, evd_event_from(event));
	add_variable(next, "EVENTD_ATTEMPT=%" PRIu32, evd_event_attempt(event));
	if (evd_event_call(event))
		add_variable(
			next, "EVENTD_CALL=%" PRIu64, evd_event_call(event));
	if (evd_event_deadline_ms(event))
		add_variable(next, "EVENTD_DEADLINE_MS=%" PRIu32,
			evd_event_deadline_ms(event));
	if (socket)
		add_variable(next, "EVENTD_SOCKET=%s", socket);
}

/* Our variables, owned, then the others, borrowed from behind *@others on. */
static char **
environment_new(struct bind *b, const struct evd_event *event, char ***others)
{
	char **all, **next;
	size_t n = 0;

	while (environ[n])
		n++;
	all = next = calloc(n + N_VARIABLES + 1, sizeof(*all));
	if (!all)
		return NULL;
	add_variables(b, event, &next);
	*others = next;
	for (char **entry = environ; *entry; entry++)
		if (!is_ours(*entry))
			*next++ = *entry;
	return all;
}

static void
environment_free(char **all, char **others)
{
	for (char **entry = all; entry < others; entry++)
		free(*entry);
	free(all);
}

/* ---- starting ---- */

/* The payload as a file to read from its beginning; -errno. */
static int
payload_file(const struct evd_event *event)
{
	int fd = memfd_create("payload", MFD_CLOEXEC);
	const char *data = evd_event_data(event);
	size_t size = evd_event_size(event);
	ssize_t n;
	int err;

	for (size_t at = 0; fd >= 0 && at < size; at += (size_t)n) {
		n = write(fd, data + at, size - at);
		if (n > 0)
			continue;
		err = errno;
		close(fd);
		return -err;
	}
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd >= 0 ? fd : -errno;
}

static int
open_fds(struct run *run, const struct evd_event *event, bool capture)
{
	int fds[2];

	run->in_fd = payload_file(event);
	if (run->in_fd < 0)
		return run->in_fd;
	if (!capture)
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	run->out_read = fds[0];
	run->out_write = fds[1];
	fcntl(run->out_read, F_SETFL, O_NONBLOCK);
	return 0;
}

static int
spawn_with(struct run *run, char **environment, posix_spawnattr_t *attr,
	posix_spawn_file_actions_t *files)
{
	char *argv[] = {
		(char *)"sh", (char *)"-c", (char *)run->bind->exec, NULL};

	posix_spawnattr_setsigmask(attr, &run->bind->old_mask);
	posix_spawnattr_setpgroup(attr, 0);
	posix_spawnattr_setflags(
		attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_adddup2(files, run->in_fd, STDIN_FILENO);
	if (run->out_write >= 0)
		posix_spawn_file_actions_adddup2(
			files, run->out_write, STDOUT_FILENO);
	return -posix_spawn(
		&run->pid, "/bin/sh", files, attr, argv, environment);
}

static int
spawn(struct run *run, const struct evd_event *event)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	char **environment, **others = NULL;
	int r;

	environment = environment_new(run->bind, event, &others);
	if (!environment)
		return -ENOMEM;
	posix_spawnattr_init(&attr);
	posix_spawn_file_actions_init(&files);
	r = spawn_with(run, environment, &attr, &files);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	environment_free(environment, others);
	return r;
}

/* ---- waiting ---- */

/* Room for a step and a NUL, up to @limit; false: no memory. */
static bool
output_reserve(struct run *run)
{
	struct outcome *o = run->outcome;
	size_t max = run->max ? run->max * 2 : OUTPUT_STEP * 2;
	char *output;

	if (run->max - o->size > OUTPUT_STEP)
		return true;
	output = realloc(o->output, max);
	if (!output)
		return false;
	o->output = output;
	run->max = max;
	return true;
}

/* What the pipe holds now. At the limit it is closed: a command that prints for
 * ever ends by that, and none waits for us. */
static void
output_read(struct run *run)
{
	uint64_t limit = ctl_max_payload(run->bind->ctl);
	struct outcome *o = run->outcome;
	ssize_t n;

	while (run->out_read >= 0) {
		o->cut = o->cut || o->size > limit || !output_reserve(run);
		n = o->cut ? 0
			   : read(run->out_read, o->output + o->size,
				     OUTPUT_STEP);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			close_fd(&run->out_read);
		else
			o->size += (size_t)n;
	}
}

static void
reap(struct run *run)
{
	int status;
	pid_t pid = waitpid(run->pid, &status, WNOHANG);

	if (pid == 0 || (pid < 0 && errno == EINTR))
		return;
	run->ended = true;
	run->outcome->wait_status = pid > 0 ? status : 0;
}

/* The first signal is passed on as it is; after that there is no mercy. */
static void
pass_on(struct run *run, int *passed)
{
	int signal = run->bind->stop_signal;

	if (signal == 0 || run->ended)
		return;
	kill(-run->pid, *passed ? SIGKILL : signal);
	*passed = signal;
}

static void
wait_for(struct run *run)
{
	int passed = 0, n;

	reap(run);
	while (!run->ended) {
		struct pollfd fds[2] = {
			{.fd = run->bind->signal_fd, .events = POLLIN},
			{.fd = run->out_read, .events = POLLIN},
		};

		n = poll(fds, 2, passed ? KILL_AFTER_MS : -1);
		if (n == 0)
			pass_on(run, &passed);
		if (fds[1].revents)
			output_read(run);
		if (!fds[0].revents)
			continue;
		if (bind_signals_read(run->bind))
			reap(run);
		else
			pass_on(run, &passed);
	}
	output_read(run);
}

int
bind_run(struct bind *b, const struct evd_event *event, bool capture,
	struct outcome *outcome)
{
	struct run run = {.bind = b,
		.outcome = outcome,
		.in_fd = -1,
		.out_read = -1,
		.out_write = -1};
	int r;

	memset(outcome, 0, sizeof(*outcome));
	r = open_fds(&run, event, capture);
	if (r == 0)
		r = spawn(&run, event);
	close_fd(&run.in_fd);
	close_fd(&run.out_write);
	if (r == 0)
		wait_for(&run);
	close_fd(&run.out_read);
	if (outcome->output)
		outcome->output[outcome->size] = '\0';
	if (r < 0)
		return ctl_fail(b->ctl, EVD_STATUS_IO,
			"the command cannot be started: %s", strerror(-r));
	outcome->started = true;
	return 0;
}

void
outcome_deinit(struct outcome *outcome)
{
	free(outcome->output);
	memset(outcome, 0, sizeof(*outcome));
}

const char *
outcome_text(const struct outcome *outcome, char *text, size_t size)
{
	int status = outcome->wait_status;

	if (outcome->cut)
		snprintf(text, size, "printed more than a payload may hold");
	else if (WIFSIGNALED(status))
		snprintf(text, size, "was killed by signal %d (%s)",
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != 0)
		snprintf(text, size, "ended with status %d",
			WEXITSTATUS(status));
	else
		return NULL;
	return text;
}

/* The listener: its socket file, accepting, limits; and loops that run in
 * threads of their own with clients on each. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fixture.h"
#include "net/listener.h"

struct place {
	struct rig *rig;
	struct listener listener;
	char dir[64], path[96];
	int fd;
};

static int
setup(void **state, unsigned n_loops)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->rig = rig_new(n_loops);
	strcpy(p->dir, "/tmp/eventd-listener-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->path, sizeof(p->path), "%s/socket", p->dir);
	*state = p;
	return 0;
}

static int
setup_one(void **state)
{
	return setup(state, 1);
}

static int
setup_two(void **state)
{
	return setup(state, 2);
}

static int
teardown(void **state)
{
	struct place *p = *state;

	unlink(p->path);
	assert_int_equal(rmdir(p->dir), 0);
	rig_free(p->rig);
	free(p);
	return 0;
}

static void
start(struct place *p)
{
	assert_int_equal(listener_open(p->path, 0600, &p->fd), 0);
	assert_int_equal(
		listener_start(&p->listener, p->rig->loops, p->rig->n_loops,
			&p->rig->server, p->fd, p->path),
		0);
}

static void
stop(struct place *p)
{
	listener_close(&p->listener);
	RIG_UNTIL(p->rig, listener_is_closed(&p->listener));
}

static int
dial(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- the file ---------------------------------------------------------- */

static void
test_the_file_has_its_mode_and_goes_at_the_end(void **state)
{
	struct place *p = *state;
	struct stat st;
	mode_t old = umask(077);

	start(p);
	assert_int_equal(umask(old), 077); /* as it was */
	assert_int_equal(stat(p->path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	stop(p);
	assert_int_equal(access(p->path, F_OK), -1);
}

static void
test_a_dead_socket_is_replaced(void **state)
{
	struct place *p = *state;
	int fd;

	assert_int_equal(listener_open(p->path, 0600, &fd), 0);
	close(fd); /* and the file stays */
	assert_int_equal(dial(p->path), -1);
	start(p);
	fd = dial(p->path);
	assert_true(fd >= 0);
	close(fd);
	stop(p);
}

static void
test_a_living_socket_is_left_alone(void **state)
{
	struct place *p = *state;
	int fd = -1;

	start(p);
	assert_int_equal(listener_open(p->path, 0600, &fd), LISTENER_E_IN_USE);
	assert_int_equal(fd, -1);
	fd = dial(p->path);
	assert_true(fd >= 0);
	close(fd);
	stop(p);
}

static void
test_what_is_no_socket_is_left_alone(void **state)
{
	struct place *p = *state;
	char target[128];
	struct stat st;
	int fd;

	fd = open(p->path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(
		listener_open(p->path, 0600, &fd), LISTENER_E_NOT_SOCKET);
	assert_int_equal(stat(p->path, &st), 0);
	unlink(p->path);
	assert_int_equal(mkdir(p->path, 0700), 0);
	assert_int_equal(
		listener_open(p->path, 0600, &fd), LISTENER_E_NOT_SOCKET);
	assert_int_equal(rmdir(p->path), 0);
	/* a link, even to a dead socket */
	snprintf(target, sizeof(target), "%s/dead", p->dir);
	assert_int_equal(listener_open(target, 0600, &fd), 0);
	close(fd);
	assert_int_equal(symlink(target, p->path), 0);
	assert_int_equal(
		listener_open(p->path, 0600, &fd), LISTENER_E_NOT_SOCKET);
	assert_int_equal(lstat(p->path, &st), 0);
	assert_int_equal(unlink(target), 0);
}

static void
test_a_path_too_long_is_told(void **state)
{
	char path[109];
	int fd;

	(void)state;
	memset(path, 'x', sizeof(path) - 1);
	memcpy(path, "/tmp/", 5);
	path[108] = '\0';
	assert_int_equal(listener_open(path, 0600, &fd), LISTENER_E_TOO_LONG);
	path[107] = '\0';
	assert_int_equal(listener_open(path, 0600, &fd), 0);
	assert_int_equal(unlink(path), 0);
	close(fd);
	assert_true(listener_open("", 0600, &fd) < 0);
	assert_true(listener_open("/nowhere/at/all", 0600, &fd) < 0);
}

static void
test_the_file_of_another_is_not_removed(void **state)
{
	struct place *p = *state;
	int other;

	start(p);
	assert_int_equal(unlink(p->path), 0);
	assert_int_equal(listener_open(p->path, 0600, &other), 0);
	stop(p);
	assert_int_equal(access(p->path, F_OK), 0);
	close(other);
}

static void
test_a_passed_socket_keeps_its_file(void **state)
{
	struct place *p = *state;

	assert_int_equal(listener_open(p->path, 0600, &p->fd), 0);
	assert_int_equal(listener_start(&p->listener, p->rig->loops, 1,
				 &p->rig->server, p->fd, NULL),
		0);
	stop(p);
	assert_int_equal(access(p->path, F_OK), 0);
}

/* ---- accepting --------------------------------------------------------- */

static void
test_connections_are_dealt_out(void **state)
{
	struct place *p = *state;
	int fds[10];

	start(p);
	for (int i = 0; i < 10; i++)
		assert_true((fds[i] = dial(p->path)) >= 0);
	RIG_UNTIL(p->rig, conn_count(&p->rig->loops[0]) == 5 &&
				  conn_count(&p->rig->loops[1]) == 5);
	for (int i = 0; i < 10; i++)
		close(fds[i]);
	stop(p);
}

static void
test_connections_are_limited(void **state)
{
	struct place *p = *state;
	uint8_t bytes[200];
	ssize_t n = -1;
	int fds[3];

	p->rig->server.max_connections = 2;
	start(p);
	for (int i = 0; i < 3; i++)
		assert_true((fds[i] = dial(p->path)) >= 0);
	RIG_UNTIL(p->rig, (n = recv(fds[2], bytes, sizeof(bytes), 0)) > 0);
	assert_int_equal(bytes[0], n - 1);
	assert_int_equal(bytes[1], 9 << 3 | 2); /* an error */
	assert_int_equal(bytes[4], EVD_STATUS_LIMIT);
	RIG_UNTIL(p->rig, recv(fds[2], bytes, sizeof(bytes), 0) == 0);
	assert_int_equal(conn_count(&p->rig->loops[0]), 2);
	close(fds[0]);
	RIG_UNTIL(p->rig, conn_count(&p->rig->loops[0]) == 1);
	close(fds[2]);
	assert_true((fds[0] = dial(p->path)) >= 0);
	RIG_UNTIL(p->rig, conn_count(&p->rig->loops[0]) == 2);
	close(fds[0]);
	close(fds[1]);
	stop(p);
}

static int
next_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static uint64_t
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Turn as the daemon would, sleeping in the poll. */
static void
turn_for(struct rig *rig, uint64_t ms)
{
	uint64_t end = rig_now() + ms * NS_PER_MS;

	while (rig_now() < end)
		loop_once(&rig->loops[0], true);
}

/* B70 */
static void
test_without_descriptors_it_rests_and_recovers(void **state)
{
	enum { N = 8 };
	struct place *p = *state;
	struct rlimit old, low;
	uint64_t cpu;
	int fds[N];

	start(p);
	for (int i = 0; i < N; i++)
		assert_true((fds[i] = dial(p->path)) >= 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)next_fd() + 2; /* for two of them */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	RIG_UNTIL(p->rig, conn_count(&p->rig->loops[0]) == 2);
	cpu = cpu_ns();
	turn_for(p->rig, 250);
	cpu = cpu_ns() - cpu;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_true(cpu < 100 * NS_PER_MS); /* of 250 ms: it did not spin */
	/* The spare descriptor told some of those that waited. */
	RIG_UNTIL(p->rig, conn_count(&p->rig->loops[0]) >= 4);
	for (int i = 0; i < N; i++)
		close(fds[i]);
	stop(p);
}

/* ---- threads ----------------------------------------------------------- */

/* A client that blocks, for a daemon that runs. */
static void
say(int fd, const Eventd__V1__Frame *frame)
{
	uint8_t out[4096];
	size_t size = eventd__v1__frame__get_packed_size(frame);
	size_t head = varint_put(out, size);

	assert_true(size < sizeof(out) - FRAME_HEAD_MAX);
	eventd__v1__frame__pack(frame, out + head);
	assert_int_equal(send(fd, out, head + size, MSG_NOSIGNAL), head + size);
}

static Eventd__V1__Frame *
hear(int fd)
{
	uint8_t in[65536];
	size_t size = 0, head, body;

	do { /* byte by byte, not to take of the next */
		assert_int_equal(recv(fd, in + size, 1, 0), 1);
		size++;
	} while (frame_take(in, size, sizeof(in), &head, &body));
	return eventd__v1__frame__unpack(NULL, body, in + head);
}

static int
dial_hello(struct place *p)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT, *answer;
	Eventd__V1__Hello hello = EVENTD__V1__HELLO__INIT;
	int fd = dial(p->path);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	hello.version = 1;
	frame.hello = &hello;
	say(fd, &frame);
	answer = hear(fd);
	assert_non_null(answer->welcome);
	eventd__v1__frame__free_unpacked(answer, NULL);
	return fd;
}

static void
post_and_wait(int fd, uint64_t n)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT, *answer;
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT, *one = &e;
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__List list = EVENTD__V1__LIST__INIT;
	uint64_t acked = 0;

	frame.envelopes = &one;
	frame.n_envelopes = 1;
	r.verb_case = EVENTD__V1__REQUEST__VERB_LIST;
	r.list = &list;
	for (uint64_t i = 1; i <= n; i++) {
		e.alias = (char *)(i % 2 ? "zero" : "one");
		e.event = (char *)"hit";
		e.seq = i;
		e.level = i % 3 ? EVENTD__V1__LEVEL__HANDLED
				: EVENTD__V1__LEVEL__ACCEPTED;
		frame.request = i % 50 ? NULL : &r;
		say(fd, &frame);
	}
	while (acked < n) {
		answer = hear(fd);
		if (answer->ack)
			acked = answer->ack->upto;
		assert_null(answer->error);
		assert_int_equal(answer->n_failures, 0);
		eventd__v1__frame__free_unpacked(answer, NULL);
	}
}

static void
stop_loop(struct sched *s, struct sched_task *task)
{
	(void)task;
	conn_close_all(loop_of(s));
}

static void
test_loops_in_threads(void **state)
{
	enum { N = 6, POSTS = 300 };
	struct place *p = *state;
	struct rig *rig = p->rig;
	struct sched_task tasks[2] = {{.run = stop_loop}, {.run = stop_loop}};
	struct fake *zero = fake_new(rig, 0, "zero");
	struct fake *one = fake_new(rig, 1, "one");
	int fds[N];

	start(p);
	for (int i = 0; i < 2; i++) {
		epoch_offline(&rig->loops[i].sched.reader);
		assert_int_equal(loop_start(&rig->loops[i]), 0);
	}
	for (int i = 0; i < N; i++)
		fds[i] = dial_hello(p);
	for (int i = 0; i < N; i++)
		post_and_wait(fds[i], POSTS);
	for (int i = 0; i < N; i += 2)
		close(fds[i]); /* the others are closed by the daemon */
	for (int i = 0; i < 2; i++)
		loop_inject(&rig->loops[i], &tasks[i]);
	for (int i = 1; i < N; i += 2) {
		char bytes[256];

		while (recv(fds[i], bytes, sizeof(bytes), 0) > 0)
			;
		close(fds[i]);
	}
	for (int i = 0; i < 2; i++)
		loop_stop(&rig->loops[i]);
	for (int i = 0; i < 2; i++)
		loop_join(&rig->loops[i]);
	for (int i = 0; i < 2; i++)
		sched_awake(&rig->loops[i].sched);
	rig_run(rig);
	assert_int_equal(zero->n_run + one->n_run, N * POSTS);
	stop(p);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_one, teardown)
#define TWO(name) cmocka_unit_test_setup_teardown(name, setup_two, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_the_file_has_its_mode_and_goes_at_the_end),
		TEST(test_a_dead_socket_is_replaced),
		TEST(test_a_living_socket_is_left_alone),
		TEST(test_what_is_no_socket_is_left_alone),
		TEST(test_a_path_too_long_is_told),
		TEST(test_the_file_of_another_is_not_removed),
		TEST(test_a_passed_socket_keeps_its_file),
		TWO(test_connections_are_dealt_out),
		TEST(test_connections_are_limited),
		TEST(test_without_descriptors_it_rests_and_recovers),
		TWO(test_loops_in_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

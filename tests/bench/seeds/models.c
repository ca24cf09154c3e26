/* The designs that the mail of 2002 compares, in plain C on Unix sockets: each
 * connection sends 32 bytes and gets 64. Blocking threads but for `loop`.
 *
 *   worker      one listener queues connections, any idle thread takes the next
 *   threadpool  one listener hands each to one idle thread, which has a
 *               condition variable of its own
 *   leader      threads take turns to accept; who has accepted makes another
 *               lead and serves the connection itself
 *   loop        one epoll loop
 *   block       that, and threads that sleep before they answer what is a nap:
 *               one queue, any idle thread takes the next
 *
 * With `frames` they speak eventd's protocol and do no more than that: the
 * system is asked who connects, hello and call are taken apart, welcome and
 * reply put together, by the daemon's codecs, and it is the client who closes.
 * What that costs is the protocol's.
 */
#include "models.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "envelope.h"
#include "eventd.pb-c.h"
#include "frame.h"
#include "parts.h"

enum { FRAMES_MAX = 4096 };
enum { QUEUE_MAX = 4096, ACCEPTS = 8 };

static const struct model_init *the;
static char answer[MODEL_ANSWER];

/* Who speaks the protocol asks who it is. */
static int
accept_one(int listener, int flags)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | flags);
	struct ucred who;
	socklen_t size = sizeof who;

	if (fd >= 0 && the->frames &&
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size))
		abort();
	return fd;
}

/* A connection from any of the listeners, by turns. */
static int
take_any(void)
{
	static _Thread_local int turn;
	struct pollfd p[MODEL_LISTENERS_MAX];

	if (the->n_listeners == 1)
		return accept_one(the->listeners[0], 0);
	for (int i = 0; i < the->n_listeners; i++)
		p[i] = (struct pollfd){the->listeners[i], POLLIN, 0};
	if (poll(p, (nfds_t)the->n_listeners, -1) < 0)
		return -1;
	for (int i = 0; i < the->n_listeners; i++) {
		int at = (turn + i) % the->n_listeners;

		if (!(p[at].revents & POLLIN))
			continue;
		turn = at + 1;
		return accept_one(the->listeners[at], 0);
	}
	return -1;
}

static int
take(void)
{
	int fd;

	do
		fd = take_any();
	while (fd < 0);
	return fd;
}

/* ---- what is said ------------------------------------------------ */

static size_t
put_welcome(const struct part *part, uint8_t *out)
{
	Eventd__V1__Frame frame = EVENTD__V1__FRAME__INIT;
	Eventd__V1__Welcome welcome = EVENTD__V1__WELCOME__INIT;
	Eventd__V1__Hello *hello =
		eventd__v1__hello__unpack(NULL, part->size, part->data);
	uint8_t body[256];
	size_t head, size;

	if (!hello)
		abort();
	welcome.version = hello->version;
	eventd__v1__hello__free_unpacked(hello, NULL);
	welcome.server = (char *)"eventd";
	welcome.session = UINT64_C(1) << 32;
	welcome.max_payload = welcome.max_frame = 1 << 20;
	welcome.window_posts = 4096;
	welcome.window_bytes = 4 << 20;
	welcome.max_calls = 1024;
	welcome.call_timeout_ms = 30000;
	frame.welcome = &welcome;
	size = eventd__v1__frame__pack(&frame, body);
	head = varint_put(out, size);
	memcpy(out + head, body, size);
	return head + size;
}

static bool
is_for_echo(const struct envelope *call)
{
	return call->alias_size == strlen(MODEL_ALIAS) &&
	       memcmp(call->alias, MODEL_ALIAS, call->alias_size) == 0;
}

static size_t
put_reply(const struct part *part, uint8_t *out)
{
	struct envelope call, reply = {0};

	if (envelope_decode(&call, part->data, part->size) ||
		(!is_for_echo(&call) && strcmp(the->design, "block") != 0))
		abort();
	reply.re = call.call;
	reply.payload = call.payload;
	reply.payload_size = call.payload_size;
	return envelope_encode_frame(&reply, out);
}

/* Clients send whole frames here, so no rest is kept. */
static size_t
answer_frames(const uint8_t *in, size_t size, uint8_t *out)
{
	size_t at = 0, n = 0, head, body;

	while (!frame_take(in + at, size - at, FRAMES_MAX, &head, &body)) {
		const uint8_t *p = in + at + head, *end = p + body;
		struct part part;

		while (!part_next(&p, end, &part))
			n += part.field == FRAME_HELLO
				     ? put_welcome(&part, out + n)
				     : put_reply(&part, out + n);
		at += head + body;
	}
	return n;
}

/* What recv() returned. */
static ssize_t
answer_once(int fd)
{
	uint8_t in[FRAMES_MAX], out[FRAMES_MAX];
	ssize_t n = recv(fd, in, the->frames ? sizeof in : MODEL_REQUEST, 0);

	if (n <= 0)
		return n;
	if (the->frames)
		send(fd, out, answer_frames(in, (size_t)n, out), MSG_NOSIGNAL);
	else
		send(fd, answer, sizeof answer, MSG_NOSIGNAL);
	return n;
}

/* The server closes after its answer. */
static bool
is_done(void)
{
	return !the->keep && !the->frames;
}

static void
serve(int fd)
{
	while (answer_once(fd) > 0 && !is_done())
		;
	close(fd);
}

/* ---- worker ------------------------------------------------------ */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t filled, has_idle;
	int fds[QUEUE_MAX], head, n, idle;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
	PTHREAD_COND_INITIALIZER, {0}, 0, 0, 0};

static void *
worker_main(void *arg)
{
	for (;;) {
		int fd;

		pthread_mutex_lock(&queue.lock);
		if (queue.idle++ == 0)
			pthread_cond_signal(&queue.has_idle);
		while (!queue.n)
			pthread_cond_wait(&queue.filled, &queue.lock);
		fd = queue.fds[queue.head];
		queue.head = (queue.head + 1) % QUEUE_MAX;
		queue.n--;
		pthread_mutex_unlock(&queue.lock);
		serve(fd);
	}
	return arg;
}

static void *
worker_listener(void *arg)
{
	for (;;) {
		int fd;

		pthread_mutex_lock(&queue.lock);
		while (queue.idle <= 0)
			pthread_cond_wait(&queue.has_idle, &queue.lock);
		queue.idle--;
		pthread_mutex_unlock(&queue.lock);
		fd = take();
		pthread_mutex_lock(&queue.lock);
		queue.fds[(queue.head + queue.n++) % QUEUE_MAX] = fd;
		pthread_cond_signal(&queue.filled);
		pthread_mutex_unlock(&queue.lock);
	}
	return arg;
}

/* ---- threadpool and leader --------------------------------------- */

struct sleeper {
	struct sleeper *next;
	pthread_mutex_t lock;
	pthread_cond_t woken;
	int fd;
	bool go;
};

static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_idle = PTHREAD_COND_INITIALIZER;
static struct sleeper *idle;
static bool is_led;

static void
sleeper_init(struct sleeper *s)
{
	memset(s, 0, sizeof *s);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->woken, NULL);
}

static void
sleeper_wake(struct sleeper *s, int fd)
{
	pthread_mutex_lock(&s->lock);
	s->fd = fd;
	s->go = true;
	pthread_cond_signal(&s->woken);
	pthread_mutex_unlock(&s->lock);
}

static int
sleeper_wait(struct sleeper *s)
{
	pthread_mutex_lock(&s->lock);
	while (!s->go)
		pthread_cond_wait(&s->woken, &s->lock);
	s->go = false;
	pthread_mutex_unlock(&s->lock);
	return s->fd;
}

static void *
pool_main(void *arg)
{
	struct sleeper me;

	sleeper_init(&me);
	for (;;) {
		pthread_mutex_lock(&idle_lock);
		me.next = idle;
		if (!idle)
			pthread_cond_signal(&has_idle);
		idle = &me;
		pthread_mutex_unlock(&idle_lock);
		serve(sleeper_wait(&me));
	}
	return arg;
}

static void *
pool_listener(void *arg)
{
	for (;;) {
		struct sleeper *s;

		pthread_mutex_lock(&idle_lock);
		while (!idle)
			pthread_cond_wait(&has_idle, &idle_lock);
		s = idle;
		idle = s->next;
		pthread_mutex_unlock(&idle_lock);
		sleeper_wake(s, take());
	}
	return arg;
}

/* True: it leads. */
static bool
lead_or_wait(struct sleeper *me)
{
	bool leads;

	pthread_mutex_lock(&idle_lock);
	leads = !is_led;
	is_led = true;
	if (!leads) {
		me->next = idle;
		idle = me;
	}
	pthread_mutex_unlock(&idle_lock);
	return leads;
}

static void *
leader_main(void *arg)
{
	struct sleeper me, *next;

	sleeper_init(&me);
	for (;;) {
		int fd;

		if (!lead_or_wait(&me))
			sleeper_wait(&me);
		fd = take();
		pthread_mutex_lock(&idle_lock);
		next = idle;
		if (next)
			idle = next->next;
		else
			is_led = false;
		pthread_mutex_unlock(&idle_lock);
		if (next)
			sleeper_wake(next, -1);
		serve(fd);
	}
	return arg;
}

/* ---- block ------------------------------------------------------- */

enum { NAP_MAX = 256, NAP_NS = 1000000 };

struct nap {
	int fd;
	size_t size;
	uint8_t frame[NAP_MAX];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct nap naps[QUEUE_MAX];
	unsigned head, n;
} naps = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {{0}}, 0, 0};

static void *
nap_main(void *arg)
{
	const struct timespec time = {.tv_nsec = NAP_NS};
	uint8_t out[FRAMES_MAX];
	struct nap nap;

	for (;;) {
		pthread_mutex_lock(&naps.lock);
		while (!naps.n)
			pthread_cond_wait(&naps.filled, &naps.lock);
		nap = naps.naps[naps.head];
		naps.head = (naps.head + 1) % QUEUE_MAX;
		naps.n--;
		pthread_mutex_unlock(&naps.lock);
		nanosleep(&time, NULL);
		send(nap.fd, out, answer_frames(nap.frame, nap.size, out),
			MSG_NOSIGNAL);
	}
	return arg;
}

/* False: it is not a nap. Each connection has one call under way. */
static bool
block_take(int fd, const uint8_t *in, size_t size)
{
	struct nap *nap;

	if (size > NAP_MAX || !memmem(in, size, MODEL_NAP, strlen(MODEL_NAP)))
		return false;
	pthread_mutex_lock(&naps.lock);
	nap = &naps.naps[(naps.head + naps.n++) % QUEUE_MAX];
	nap->fd = fd;
	nap->size = size;
	memcpy(nap->frame, in, size);
	pthread_cond_signal(&naps.filled);
	pthread_mutex_unlock(&naps.lock);
	return true;
}

static ssize_t
block_once(int fd)
{
	uint8_t in[FRAMES_MAX], out[FRAMES_MAX];
	ssize_t n = recv(fd, in, sizeof in, 0);

	if (n > 0 && !block_take(fd, in, (size_t)n))
		send(fd, out, answer_frames(in, (size_t)n, out), MSG_NOSIGNAL);
	return n;
}

/* ---- loop -------------------------------------------------------- */

static void
watch(int poll_fd, int fd, uint64_t data)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = data};

	if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e))
		abort();
}

static void
loop_serve(int fd)
{
	bool blocks = strcmp(the->design, "block") == 0;
	ssize_t n = blocks ? block_once(fd) : answer_once(fd);

	if (n == 0 || (n < 0 && errno != EAGAIN) || (n > 0 && is_done()))
		close(fd);
}

/* The request is mostly there already. */
static void
loop_accept(int poll_fd, int listener)
{
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept_one(listener, SOCK_NONBLOCK);
		ssize_t n;

		if (fd < 0)
			return;
		n = the->keep ? -1 : answer_once(fd);
		if (n == 0 || (n > 0 && is_done()))
			close(fd);
		else
			watch(poll_fd, fd, (uint64_t)fd + MODEL_LISTENERS_MAX);
	}
}

static void *
loop_main(void *arg)
{
	int poll_fd = epoll_create1(EPOLL_CLOEXEC), n;
	struct epoll_event events[128];

	for (int i = 0; i < the->n_listeners; i++) {
		fcntl(the->listeners[i], F_SETFL, O_NONBLOCK);
		watch(poll_fd, the->listeners[i], (uint64_t)i);
	}
	for (;;) {
		n = epoll_wait(poll_fd, events, 128, -1);
		for (int i = 0; i < n; i++) {
			uint64_t at = events[i].data.u64;

			if (at < MODEL_LISTENERS_MAX)
				loop_accept(poll_fd, the->listeners[at]);
			else
				loop_serve((int)(at - MODEL_LISTENERS_MAX));
		}
	}
	return arg;
}

/* ---- all --------------------------------------------------------- */

static void
start(void *(*run)(void *), int n)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	for (int i = 0; i < n; i++)
		if (pthread_create(&thread, &attr, run, NULL))
			abort();
}

void
model_run(const struct model_init *init)
{
	the = init;
	signal(SIGPIPE, SIG_IGN);
	if (strcmp(init->design, "worker") == 0) {
		start(worker_main, init->n_threads);
		start(worker_listener, 1);
	} else if (strcmp(init->design, "threadpool") == 0) {
		start(pool_main, init->n_threads);
		start(pool_listener, 1);
	} else if (strcmp(init->design, "leader") == 0) {
		start(leader_main, init->n_threads);
	} else {
		if (strcmp(init->design, "block") == 0)
			start(nap_main, init->n_threads);
		start(loop_main, 1);
	}
	for (;;)
		pause();
}

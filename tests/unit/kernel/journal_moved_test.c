/* Moves between durable mailboxes that a crash cuts at any step: on a store in
 * memory that forgets what had not been done by then. */
#include "kernel/journal.h"

#include "fake_store.h"

#include "kernel/queue.h"

enum { N = 600, CUTS = 14, ROW_OF = 4 };

struct world {
	struct fixture *f;
	struct fake_store *store;
	struct fake *a, *b, *poster;
	struct queue_move move;
	bool moved;
	unsigned seen[N]; /* how often each was handled */
};

static struct world *the_world;

static enum session_result
count(struct fake *fake, struct msg *m)
{
	struct world *w = the_world;
	unsigned i;

	(void)fake;
	memcpy(&i, m->data, sizeof(i));
	assert_true(i < N);
	w->seen[i]++;
	return SESSION_DONE;
}

static struct fake *
box_new(struct world *w, const char *name, unsigned loop)
{
	struct session_spec *spec = fixture_spec(name, RESTART_NO);
	struct fake *box;

	spec->durable = 1;
	box = fake_hosted(w->f, loop, spec);
	box->on_run = count;
	the_world = w;
	return box;
}

static void
world_open(struct world *w, bool paused)
{
	w->f = fixture_new(2, NULL);
	w->f->kernel.store = &w->store->store;
	w->poster = fake_new(w->f, 0, "poster");
	w->a = box_new(w, "a", 0);
	w->b = box_new(w, "b", 1);
	if (paused) {
		queue_pause(w->a->session);
		queue_pause(w->b->session);
	}
}

static void
world_close(struct world *w)
{
	session_stop(w->a->session);
	session_stop(w->b->session);
	fake_store_run(w->f, w->store);
	fixture_free(w->f);
}

static void
fill(struct world *w)
{
	for (unsigned i = 0; i < N; i++) {
		struct msg *m = msg_new(&w->poster->sched->pool,
			&(struct msg_init){.event = "e",
				.event_size = 1,
				.data = &i,
				.size = sizeof(i)});

		m->to = session_id(w->a->session);
		assert_int_equal(sched_post(w->poster->sched, m), 0);
		if (i % ROW_OF == 0) /* more records than one look reads */
			fake_store_run(w->f, w->store);
	}
	fake_store_run(w->f, w->store);
}

static void
on_moved(struct queue_move *move, struct sched *home)
{
	(void)home;
	container_of(move, struct world, move)->moved = true;
}

/* What the disk holds when the machine stops. */
struct disk {
	struct fake_row *rows;
	size_t n;
};

static struct disk
disk_of(const struct fake_store *f)
{
	struct disk d = {calloc(f->n + 1, sizeof(*d.rows)), f->n};

	for (size_t i = 0; i < f->n; i++) {
		d.rows[i] = f->rows[i];
		d.rows[i].data = malloc(f->rows[i].size + 1);
		memcpy(d.rows[i].data, f->rows[i].data, f->rows[i].size);
	}
	return d;
}

static void
disk_use(struct fake_store *f, const struct disk *d)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->rows[i].data);
	free(f->rows);
	f->rows = d->rows;
	f->n = f->room = d->n;
}

/* No further than a daemon that begins to listen. */
static void
until_ready(struct world *w)
{
	while (!journal_is_ready(w->a->session) ||
		!journal_is_ready(w->b->session)) {
		fake_store_step(w->store);
		fixture_run(w->f);
	}
}

struct look {
	struct queue_walk walk;
	unsigned seen[N];
	bool done;
};

static bool
see(void *arg, const struct msg *m)
{
	unsigned i;

	memcpy(&i, m->data, sizeof(i));
	assert_true(i < N);
	((struct look *)arg)->seen[i]++;
	return true;
}

static void
looked(struct sched *s, void *arg, int status)
{
	(void)s;
	assert_int_equal(status, 0);
	((struct look *)arg)->done = true;
}

/* What is in memory, then, while it is being read in, what is not. */
static void
look(struct look *l, struct fake *box)
{
	const struct msg *m;

	queue_look_open(&l->walk, box->session);
	while ((m = queue_walk_next(&l->walk, box->session)))
		see(l, m);
	queue_walk_close(&l->walk, box->sched);
	l->done = !journal_look(box->session,
		&(struct journal_look){l->walk.stored, see, looked, l});
}

static void
assert_looks_whole(struct world *w)
{
	static struct look a, b;

	a = b = (struct look){.done = false};
	look(&a, w->a);
	look(&b, w->b);
	while (!a.done || !b.done) {
		fake_store_step(w->store);
		fixture_run(w->f);
	}
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(a.seen[i] + b.seen[i], 1);
}

static void
cut_at(unsigned cut)
{
	struct world w = {.store = fake_store_new()};
	struct disk disk;

	world_open(&w, true);
	fake_store_run(w.f, w.store);
	fill(&w);
	w.move = (struct queue_move){.from = session_id(w.a->session),
		.to = session_id(w.b->session),
		.left = 500,
		.done = on_moved};
	queue_move_start(&w.move, w.a->sched);
	for (unsigned i = 0; i < cut; i++) {
		if (i % 2)
			fake_store_step(w.store);
		else
			fixture_run(w.f);
	}
	disk = disk_of(w.store);
	fake_store_run(w.f, w.store);
	assert_true(w.moved);
	assert_int_equal(w.move.moved, 500);
	world_close(&w);
	memset(w.seen, 0, sizeof(w.seen));
	disk_use(w.store, &disk);
	fake_store_restart(w.store);
	world_open(&w, true);
	until_ready(&w);
	assert_int_equal(w.a->session->box.n + w.b->session->box.n, N);
	assert_looks_whole(&w);
	queue_resume(w.a->session);
	queue_resume(w.b->session);
	fake_store_run(w.f, w.store);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(w.seen[i], 1);
	assert_int_equal(w.store->store.n_damaged, 0);
	assert_int_equal(fake_store_count(w.store, STORE_META), 0);
	assert_int_equal(fake_store_count(w.store, STORE_EVENTS), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct counters c =
			session_counters(i ? w.b->session : w.a->session);

		assert_int_equal(c.accepted, c.handled);
	}
	world_close(&w);
	fake_store_free(w.store);
}

static void
test_a_move_is_whole_whenever_it_is_cut(void **state)
{
	(void)state;
	for (unsigned cut = 0; cut < CUTS; cut++)
		cut_at(cut);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_move_is_whole_whenever_it_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

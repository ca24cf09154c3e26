/* A thread for those who only read: the store's own may be in a sync, for as
 * long as the disk likes. */
#include <errno.h>

#include "base/fault.h"
#include "store/lmdb_own.h"

int
reader_do(struct lmdb *l, struct store_read *read)
{
	struct view v;
	int r = FAULT(store_read_eio) ? EIO : view_begin(&v, l);

	if (r)
		return lmdb_error(r);
	r = lmdb_read(&v, read);
	view_end(&v);
	return lmdb_error(r);
}

static struct store_job *
take(struct reader *reader)
{
	struct store_job *job = reader->first;

	reader->first = job->next;
	if (!reader->first)
		reader->last = NULL;
	job->next = NULL;
	return job;
}

static void *
reader_run(void *arg)
{
	struct lmdb *l = arg;
	struct reader *reader = &l->reader;
	struct store_job *job;

	pthread_setname_np(pthread_self(), "eventd-storer");
	pthread_mutex_lock(&l->lock);
	for (;;) {
		while (!reader->first && !reader->ending)
			pthread_cond_wait(&reader->asked, &l->lock);
		if (!reader->first)
			break;
		job = take(reader);
		reader->busy = true;
		pthread_mutex_unlock(&l->lock);
		job->status = reader_do(l, job->read);
		lmdb_give_back(job);
		pthread_mutex_lock(&l->lock);
		reader->busy = false;
		if (!reader->first)
			pthread_cond_signal(&l->come);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

int
reader_start(struct lmdb *l)
{
	int r = lmdb_thread(&l->reader.thread, reader_run, l);

	l->reader.runs = !r;
	return r;
}

void
reader_end(struct lmdb *l)
{
	if (!l->reader.runs)
		return;
	pthread_mutex_lock(&l->lock);
	l->reader.ending = true;
	pthread_cond_signal(&l->reader.asked);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->reader.thread, NULL);
	l->reader.runs = false;
}

void
reader_submit(struct lmdb *l, struct store_job *job)
{
	struct reader *reader = &l->reader;

	job->next = NULL;
	if (reader->last)
		reader->last->next = job;
	else
		reader->first = job;
	reader->last = job;
	pthread_cond_signal(&reader->asked);
}

void
reader_wait(struct lmdb *l)
{
	pthread_mutex_lock(&l->lock);
	while (l->reader.first || l->reader.busy)
		pthread_cond_wait(&l->come, &l->lock);
	pthread_mutex_unlock(&l->lock);
}

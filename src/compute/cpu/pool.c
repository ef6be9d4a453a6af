// pool - persistent compute threads that share out the tasks of one operation.
//
// Which thread takes which task is chance; tasks write disjoint memory, so the result is not.
#include "cpu_internal.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct Worker {
    Pool *pool;
    pthread_t thread;
    int number;   // from 1; the caller is 0
} Worker;

struct Pool {
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    Worker *workers;
    int count;   // workers, the caller not counted
    uint64_t round;   // of the operation being shared out
    int busy;   // workers still in it
    bool closing;
    PoolTask task;
    void *context;
    int64_t tasks;
    _Atomic int64_t next;
};

static void take_tasks(Pool *pool, int worker)
{
    for (int64_t i = atomic_fetch_add(&pool->next, 1); i < pool->tasks; i = atomic_fetch_add(&pool->next, 1))
        pool->task(pool->context, i, worker);
}

static void *work(void *context)
{
    const Worker *worker = context;
    Pool *pool = worker->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->round == seen && !pool->closing)
            pthread_cond_wait(&pool->begin, &pool->lock);
        if (pool->closing)
            break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->lock);
        take_tasks(pool, worker->number);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->end);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

Pool *pool_new(int threads)
{
    Pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begin, NULL);
    pthread_cond_init(&pool->end, NULL);
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    for (int i = 1; pool->workers && i < threads; i++) {
        Worker *worker = &pool->workers[pool->count];
        *worker = (Worker){.pool = pool, .number = i};
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            break;   // fewer helpers: slower, the same bits
        pool->count++;
    }
    if (pool->workers)
        return pool;
    pool_free(pool);
    return NULL;
}

void pool_free(Pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->count; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->begin);
    pthread_cond_destroy(&pool->end);
    free(pool->workers);
    free(pool);
}

int pool_threads(const Pool *pool)
{
    return pool->count + 1;
}

void pool_run(Pool *pool, int64_t tasks, PoolTask task, void *context)
{
    if (tasks == 1 || pool->count == 0) {
        for (int64_t i = 0; i < tasks; i++)
            task(context, i, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->task = task;
    pool->context = context;
    pool->tasks = tasks;
    atomic_store(&pool->next, 0);
    pool->busy = pool->count;
    pool->round++;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    take_tasks(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->end, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

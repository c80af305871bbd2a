import { useMutation } from '@tanstack/vue-query';
import { answers } from '../shared/api/answers';
import { api } from '../shared/api/client';
import type { Schema } from '../shared/api/types';

export interface Target {
  name: string;
  kind: 'shards' | 'own';
}

export type Ended = 'failed' | 'dead' | 'cancelled';
export type Limits = Pick<
  Schema<'LimitQueueRequestBody'>,
  'concurrency' | 'concurrency_per_group' | 'max_attempts' | 'max_items'
>;

const told = { onSuccess: () => void answers.invalidateQueries({ queryKey: ['queues'] }) };

/** Stops or continues handing out items. */
export function usePause() {
  return useMutation({
    mutationFn: async ({ target: { name, kind }, paused }: { target: Target; paused: boolean }) => {
      if (kind === 'own') {
        const params = { params: { path: { queue: name } } };
        await (paused ? api.POST('/queues/{queue}/pause', params) : api.POST('/queues/{queue}/resume', params));
      } else {
        const params = { params: { path: { stage: name } } };
        await (paused
          ? api.POST('/pipeline/queues/{stage}/pause', params)
          : api.POST('/pipeline/queues/{stage}/resume', params));
      }
    },
    ...told,
  });
}

/** Changes limits; those that are left out stay. */
export function useLimits() {
  return useMutation({
    mutationFn: async ({ target: { name, kind }, limits }: { target: Target; limits: Limits }) => {
      if (kind === 'own') {
        await api.POST('/queues/{queue}/limits', { params: { path: { queue: name } }, body: limits });
      } else {
        const { concurrency, max_attempts } = limits;
        await api.POST('/pipeline/queues/{stage}/limits', {
          params: { path: { stage: name } },
          body: {
            ...(concurrency !== undefined && { concurrency }),
            ...(max_attempts !== undefined && { max_attempts }),
          },
        });
      }
    },
    ...told,
  });
}

/** Brings one item back, or ends it. */
export function useMoveItem() {
  return useMutation({
    mutationFn: async ({ queue, id, transition }: { queue: string; id: number; transition: 'retry' | 'cancel' }) => {
      await api.POST('/queues/{queue}/items/{id}/{transition}', {
        params: { path: { queue, id, transition } },
        body: {},
      });
    },
    ...told,
  });
}

interface Replay {
  queue: string;
  id: number;
  generation: number;
  /** JSON, which is sent as it is: it may have numbers that JavaScript has not. */
  payload: string;
}

/** Has an item tried again with another payload. */
export function useReplayItem() {
  return useMutation({
    mutationFn: async ({ queue, id, generation, payload }: Replay) => {
      await api.POST('/queues/{queue}/items/{id}/replay', {
        params: { path: { queue, id } },
        body: { generation, payload },
        bodySerializer: () => `{"generation":${generation},"payload":${payload}}`,
      });
    },
    ...told,
  });
}

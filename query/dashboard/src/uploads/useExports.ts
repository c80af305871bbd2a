import { useMutation, useQuery } from '@tanstack/vue-query';
import { answers, every } from '../shared/api/answers';
import { api } from '../shared/api/client';
import type { operations } from '../shared/api/schema';
import type { Schema } from '../shared/api/types';

export type Made = Schema<'UploadExport'>;
type Asked = NonNullable<operations['export-upload']['parameters']['query']>;

/** It is not made yet. */
export const isComing = ({ state }: Made): boolean => state === 'QUEUED' || state === 'RUNNING';

/** How often exports that come are asked for, in milliseconds. */
const often = 700;

/** The exports of an upload that the server makes in the background. */
export function useExports(job: string) {
  const params = { path: { jobId: job } };
  const queryKey = ['uploads', 'exports', job];
  const list = useQuery({
    queryKey,
    queryFn: async ({ signal }) => (await api.GET('/uploads/{jobId}/exports', { params, signal })).data!.items,
    refetchInterval: ({ state }) => (state.data?.some(isComing) ? often : every),
    meta: { kept: false },
  });
  const onSettled = () => void answers.invalidateQueries({ queryKey });
  const begin = useMutation({
    mutationFn: async (query: Asked) => void (await api.POST('/uploads/{jobId}/export', { params: { ...params, query } })),
    onSettled,
  });
  const drop = useMutation({
    mutationFn: async (exportId: string) =>
      void (await api.DELETE('/uploads/{jobId}/exports/{exportId}', { params: { path: { jobId: job, exportId } } })),
    onSettled,
  });
  return { list, begin, drop };
}

/**
 * The table of all routes: it makes the router, the OpenAPI document and the test that each response fits its schema.
 */
import { z } from 'zod'
import type { Right } from './options.ts'
import * as shapes from './schemas.ts'

/** Answer of a route: its JSON, or the media types of another body. */
export interface Answer {
  readonly description: string
  readonly json?: z.ZodType
  readonly types?: readonly string[]
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  /** Other paths of the same route. */
  readonly also?: readonly string[]
  readonly summary: string
  /** Any one of these is needed; none: anybody may. */
  readonly rights: readonly Right[]
  /** The path names a task. Right that a caller needs for the tasks of others. */
  readonly others?: Right
  readonly query: z.ZodObject
  readonly body?: z.ZodType
  readonly answers: Readonly<Record<number, Answer>>
  /** Status codes of its errors, beside those that every route has. */
  readonly errors: readonly number[]
}

const route = <const R extends Route>(given: R): R => given

const none = z.strictObject({})
const seconds = z.coerce.number().min(0).max(600)
const teamName = z.string().optional()
const pageSize = z.coerce.number().int().min(1).max(1_000)

export const routes = {
  createTask: route({
    method: 'POST',
    path: '/api/tasks',
    also: ['/api/process-multi-agent-task'],
    summary: 'Gives a team a task, and answers when it is done',
    rights: ['run'],
    query: none,
    body: shapes.taskRequest,
    answers: {
      200: { description: 'it is done', json: shapes.task },
      202: { description: 'with Prefer: respond-async, or after Prefer: wait=seconds', json: shapes.task },
    },
    errors: [409, 422, 429, 502, 503, 504],
  }),
  listTasks: route({
    method: 'GET',
    path: '/api/tasks',
    summary: 'Lists tasks, the newest first',
    rights: ['run', 'watch'],
    query: z.strictObject({
      status: shapes.taskStatus.optional(),
      team: teamName,
      before: z.string().optional(),
      limit: pageSize.default(100),
    }),
    answers: { 200: { description: 'a page of tasks', json: shapes.taskList } },
    errors: [404, 422],
  }),
  getTask: route({
    method: 'GET',
    path: '/api/tasks/:id',
    summary: 'Returns a task; with wait= at its end, or after that many seconds',
    rights: ['run', 'watch'],
    others: 'watch',
    query: z.strictObject({ wait: seconds.default(0) }),
    answers: { 200: { description: 'the task as it is now', json: shapes.task } },
    errors: [404],
  }),
  cancelTask: route({
    method: 'DELETE',
    path: '/api/tasks/:id',
    summary: 'Cancels a task: it ends as aborted',
    rights: ['run', 'operate'],
    others: 'operate',
    query: z.strictObject({ reason: z.string().min(1).max(1_000).optional() }),
    answers: {
      200: { description: 'it had ended already', json: shapes.task },
      202: { description: 'it is being cancelled', json: shapes.task },
    },
    errors: [404],
  }),
} as const satisfies Record<string, Route>

export type Routes = typeof routes
export type Operation = keyof Routes

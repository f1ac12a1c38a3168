/** Requests on their way to the handlers of their routes. */

import type { z } from 'zod'
import type { Caller, Right } from './options.ts'
import type { Operation, Route, Routes } from './routes.ts'
import type { FoundTask } from './task-view.ts'

/** A request as a handler gets it, with all that is checked of it. */
export interface Call<R extends Route = Route> {
  readonly request: Request
  readonly params: Readonly<Record<string, string>>
  readonly query: z.infer<R['query']>
  readonly body: R['body'] extends z.ZodType ? z.infer<R['body']> : undefined
  readonly caller: Caller
  /** The task that the path names, in a route that says so. */
  readonly task: R['others'] extends readonly Right[] ? FoundTask : undefined
}

export type Handlers = {
  readonly [Name in Operation]: (call: Call<Routes[Name]>) => Response | Promise<Response>
}

export const json = (value: unknown, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json', ...headers } })

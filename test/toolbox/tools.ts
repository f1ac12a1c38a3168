/** Tools for the tests, and what is seen of their calls. */
import { z } from 'zod'
import {
  type DramatisError,
  defineTool,
  type MultiAgentPattern,
  type RuntimeEvent,
  type ToolContext,
} from '../../src/index.ts'

export type ToolEvent = Extract<RuntimeEvent, { type: `tool.${string}` }>

/** Adds; `calls` counts how often it has run. */
export function adder(name = 'add') {
  const calls: { a: number; b: number; key: string }[] = []
  const tool = defineTool({
    name,
    description: 'Adds two numbers.',
    input: z.object({ a: z.number(), b: z.number().default(1) }),
    run({ a, b }, { idempotencyKey }) {
      calls.push({ a, b, key: idempotencyKey })
      return { sum: a + b }
    },
  })
  return { tool, calls }
}

/** A tool without input that does what it is told. */
export function doing<Out>(
  run: (context: ToolContext) => Out | Promise<Out>,
  options: { name?: string; timeoutMs?: number; idempotent?: boolean; sequential?: boolean } = {},
) {
  return defineTool({
    name: 'act',
    description: 'Acts.',
    input: z.object({}),
    ...options,
    run: (_input, context) => run(context),
  })
}

/** The events of tools, from now on. */
export function toolEvents(team: MultiAgentPattern<string>): ToolEvent[] {
  const events: ToolEvent[] = []
  team.events.subscribe((event) => {
    if (event.type.startsWith('tool.')) events.push(event as ToolEvent)
  })
  return events
}

/** What a promise rejects with. */
export async function refusal(promise: Promise<unknown>): Promise<DramatisError> {
  return promise.then(
    (value) => {
      throw new Error(`it did not reject, and gave ${JSON.stringify(value)}`)
    },
    (error: DramatisError) => error,
  )
}

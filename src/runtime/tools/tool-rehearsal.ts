/**
 * Which tools run where the rehearsal model answers. Its arguments are invented, and so is all that follows from them:
 * a tool that changes something does not run, but is answered in its place.
 */
import type { ToolDefinition } from '../../actors/definition/tool.ts'
import { Dice } from '../providers/seeded-random.ts'
import type { RunState } from '../state/run-state.ts'
import { CHECKED_THERE } from './isolated-tools.ts'

const LABEL = '[rehearsal]'
const SEED = 1

/** Properties of a tool by which it is decided whether it runs in a rehearsal. */
export type Rehearsable = Pick<ToolDefinition, 'readOnly' | 'outside'>

/** Properties of a thread's own tool, as the thread states them. The host must check every field. */
export type ThreadTool = Rehearsable & Pick<ToolDefinition, 'outputSchema'>

export interface ToolRehearsal {
  /** False where no run of the team can be a rehearsal, or all tools run. */
  readonly isPossible: boolean
  simulates(run: RunState, tool: Rehearsable): boolean
  /** The same tool, which checks its input and says what it might have said. */
  inPlaceOf(tool: ToolDefinition, input: unknown): ToolDefinition
  /** Runs one that is not simulated. */
  perform<T>(tool: ToolDefinition, work: () => Promise<T>): Promise<T>
}

/** Every tool runs. */
export const NO_REHEARSAL: ToolRehearsal = {
  isPossible: false,
  simulates: () => false,
  inPlaceOf: (tool) => tool,
  perform: (_tool, work) => work(),
}

export interface RehearsalRules {
  /** Checks whether the rehearsal model answers in this run, or has answered. */
  isRehearsed(run: RunState): boolean
  /** Time is virtual, and cannot wait for what goes on outside. */
  isVirtual: boolean
  /** Told before a tool is answered in place of. */
  onSimulated?(): unknown
}

export function toolRehearsal({ isRehearsed, isVirtual, onSimulated }: RehearsalRules): ToolRehearsal {
  return {
    ...NO_REHEARSAL,
    isPossible: true,
    simulates: (run, { readOnly, outside }) => (!readOnly || (isVirtual && outside)) && isRehearsed(run),
    inPlaceOf(tool, input) {
      onSimulated?.()
      return {
        ...tool,
        async run(_value, context) {
          await tool.check?.(input, context)
          return answerOf(tool, input)
        },
      }
    },
  }
}

/** The same for the same input. */
async function answerOf({ name, outputSchema }: ToolDefinition, input: unknown): Promise<unknown> {
  if (!outputSchema) return `${LABEL} "${name}" was not run, because this is a rehearsal.`
  const { sampleOf } = await import('../providers/json-sample.ts')
  return sampleOf(outputSchema, new Dice(SEED, JSON.stringify([name, input])), LABEL)
}

/** A tool of a thread as the host has it: what checks its input has done so there. */
export function threadTool(name: string, told: Partial<ThreadTool>): ToolDefinition {
  const { outputSchema } = told
  return {
    name,
    description: '',
    input: CHECKED_THERE,
    inputSchema: {},
    outputSchema: typeof outputSchema === 'object' && outputSchema !== null ? outputSchema : undefined,
    readOnly: told.readOnly === true,
    outside: told.outside === true,
    idempotent: true,
    timeoutMs: TIMEOUT_MS,
    sequential: false,
    polling: false,
    approval: false,
    approvers: 'others',
    needsApproval: () => false,
    run: () => undefined,
  }
}

const TIMEOUT_MS = 30_000

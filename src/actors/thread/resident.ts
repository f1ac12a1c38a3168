/** Loads the code of an agent into a thread, then runs the agent's loop. */

import { Channel, type Ring } from '../../mailbox/channel.ts'
import { BLANK, type FrameFields, frameBytes, REQUEST, RUN, writeFrame } from '../../mailbox/frame.ts'
import { FIXED_NAMES, ORCHESTRATOR } from '../../mailbox/message.ts'
import { TeamMemory } from '../../mailbox/team-memory.ts'
import type { Scheduler } from '../../shared/clock.ts'
import * as errors from '../../shared/errors.ts'
import { queueMicrotask } from '../../shared/timers.ts'
import type { Assignment, CodeAssignment, Started, ToolCode } from '../definition/assignment.ts'
import {
  type AgentDefinition,
  type AgentHandlers,
  defineAgent,
  type Exports,
  exportsOf,
  handlersOf,
  type Imports,
} from '../definition/definition.ts'
import type { ThreadPort } from '../turn/link.ts'
import { modelAgent } from '../turn/model-agent.ts'
import { moduleScript, ScriptContext } from '../turn/orchestrator.ts'
import { remoteAgent } from '../turn/remote-agent.ts'
import { toolIn } from '../turn/run-tool.ts'
import { type LoadedTool, Toolbox } from '../turn/toolbox.ts'
import { AgentLoop, startFailure } from './loop.ts'

/** Code of the agent, as its modules export it. */
interface Loaded {
  handlers: AgentHandlers
  toolbox: Toolbox
}

export class Resident {
  readonly #port: ThreadPort
  readonly #imports: Imports
  #loaded: Promise<Loaded> | undefined
  #loop: AgentLoop | undefined

  constructor(port: ThreadPort, imports: Imports) {
    this.#port = port
    this.#imports = imports
  }

  load(assignment: CodeAssignment): Promise<Started> {
    return replyOf(assignment, async () => {
      await this.#code(assignment)
      return { ok: true, state: undefined }
    })
  }

  start(assignment: Assignment): Promise<Started> {
    return replyOf(assignment, () => this.#start(assignment))
  }

  get isIdle(): boolean {
    return this.#loop?.isIdle === true
  }

  async stop(): Promise<void> {
    await this.#loop?.stop()
  }

  /** Ends the agent at once: what it had published stays, and it writes nothing more. */
  leave(): void {
    this.#loop?.link.close()
  }

  async #start(assignment: Assignment): Promise<Started> {
    const script = 'protocol' in assignment.code
    const { handlers, toolbox } = await this.#code(assignment)
    const loop = new AgentLoop(
      assignment,
      handlers,
      toolbox,
      this.#port,
      script ? (turn) => new ScriptContext(turn, () => turn.start.view.roster) : undefined,
    )
    this.#loop = loop
    const state = await loop.start(assignment.state)
    queueMicrotask(() => loop.pump())
    return { ok: true, state, tools: toolbox.names, harmful: toolbox.harmful }
  }

  #code(assignment: CodeAssignment): Promise<Loaded> {
    this.#loaded ??= loadAll(assignment, this.#imports)
    return this.#loaded
  }
}

/** Does a part of the start. An error becomes a reply. */
async function replyOf({ role }: CodeAssignment, part: () => Promise<Started>): Promise<Started> {
  try {
    return await part()
  } catch (error) {
    if (error instanceof ImportFailure)
      return { ok: false, importing: error.whose, error: errors.errorData(error.what) }
    return { ok: false, error: errors.errorData(startFailure(role.name, error)) }
  }
}

async function loadAll(assignment: CodeAssignment, imports: Imports): Promise<Loaded> {
  Object.assign(process.env, assignment.env)
  const { tools } = assignment
  if (tools.modules.some(({ bundled }) => bundled)) process.setSourceMapsEnabled(true)
  const handlers = await handlersFor(assignment, imports)
  const loaded = await Promise.all(tools.modules.map((code) => loadTool(code, imports)))
  return { handlers, toolbox: new Toolbox(tools, loaded) }
}

async function handlersFor(
  { code, role, option, instances }: CodeAssignment,
  imports: Imports,
): Promise<AgentHandlers> {
  if ('model' in code) return modelAgent(instances === 1)
  if ('remote' in code) return remoteAgent(code.remote)
  if (code.bundled) process.setSourceMapsEnabled(true)
  const { default: exported } = await exportsIn('module' in code ? code.module : code.protocol, 'agent', imports)
  return 'protocol' in code
    ? moduleScript(exported, code.shown, code.config)
    : agentOf(exported, code.shown, role.name, option)
}

/** Wraps an error thrown by the import of a module, with the agent or tool whose module it is. */
class ImportFailure {
  readonly what: errors.ConfigurationError
  readonly whose: 'agent' | ToolCode
  constructor(thrown: unknown, whose: 'agent' | ToolCode) {
    this.whose = whose
    this.what = new errors.ConfigurationError(errors.describe(thrown), {}, thrown)
  }
}

async function exportsIn(module: string, whose: 'agent' | ToolCode, imports: Imports): Promise<Exports> {
  try {
    return exportsOf(await imports(module))
  } catch (error) {
    throw new ImportFailure(error, whose)
  }
}

async function loadTool(code: ToolCode, imports: Imports): Promise<LoadedTool> {
  return { tool: toolIn(await exportsIn(code.module, code, imports), code), option: code.option }
}

function agentOf(exported: unknown, shown: string, agent: string, option: string): AgentHandlers {
  const handlers = handlersOf(exported)
  if (handlers) return handlers
  const path = `${option}.module`
  throw new errors.ConfigurationError(
    `${path}: the module of "${agent}" has no agent as its default export: ${shown}. Write: export default defineAgent({ ... }).`,
    { path, agent, module: shown },
  )
}

/*
 * A turn that one of the first threads of a process plays before it has an agent. V8 compiles a function when it is
 * first called, and later threads begin with what this one has compiled: so with what a turn needs.
 */

const [SENDER, PLAYER, PARTNER] = [FIXED_NAMES.indexOf(ORCHESTRATOR), FIXED_NAMES.length, FIXED_NAMES.length + 1]
const RUN_INDEX = 1
const TURN = 1
const MOST_BYTES = 1_024
/** Turns of the event loop within which the turn has ended. */
const LONGEST = 16

/** Sends what it gets to another agent, and answers it: what most agents do, on the way that all do. */
const player: AgentDefinition = defineAgent({
  async receive({ content, structuredData }, context) {
    await context.send('partner', content, { structuredData })
    return { content, structuredData }
  },
})

/** Plays the turn, from the load of its agent to the stop. Resolves to true if it has ended and written something. */
export async function playFirstTurn(clock: Scheduler): Promise<boolean> {
  const team = new TeamMemory(PARTNER + 1)
  team.open(PARTNER, 1, MOST_BYTES, MOST_BYTES)
  const channel = Channel.ofSeat()
  const now = clock.now()
  write(channel.replies, now, { kind: RUN, content: 'run', data: '{"metadata":{}}' })
  const data = '{"of":"the first turn"}'
  write(channel.plain, now, { kind: REQUEST, content: 'play', data, sender: SENDER, recipient: PLAYER, turn: TURN })
  let wake = () => {}
  const port: ThreadPort = {
    wake() {},
    onWake(listener) {
      wake = listener
    },
    scheduler: clock,
  }
  const resident = new Resident(port, async () => ({ default: player }))
  const started = await resident.start(assignmentOf(team, channel))
  wake()
  const hasEnded = () => resident.isIdle && channel.outbox.more()
  for (let left = LONGEST; left > 0 && !hasEnded(); left--) await new Promise<void>((resolve) => clock.defer(resolve))
  const hasPlayed = started.ok && hasEnded()
  if (hasPlayed) await resident.stop() // which would wait for its turn
  resident.leave()
  return hasPlayed
}

function assignmentOf(team: TeamMemory, channel: Channel): Assignment {
  return {
    role: { name: 'player' },
    option: 'agents[0]',
    code: { module: '', bundled: false, shown: 'player' },
    tools: { host: [], modules: [], names: [] },
    env: {},
    keys: [],
    index: PLAYER,
    epoch: 1,
    names: [...FIXED_NAMES, 'player', 'partner'].join('\n'),
    channel: channel.buffer,
    team: team.buffer,
    state: undefined,
    correlation: 0,
    seed: 1,
    maxMessageBytes: MOST_BYTES,
    maxExternalMb: null,
    isDurable: false,
    concurrency: 1,
    instances: 1,
    verbs: [],
    loops: false,
    messagesPerTurn: Number.POSITIVE_INFINITY,
    contextStrategy: undefined,
  }
}

function write(ring: Ring, now: number, fields: Partial<FrameFields>): void {
  const whole = { ...BLANK, run: RUN_INDEX, ...fields }
  const bytes = frameBytes(whole)
  writeFrame(ring.memory, ring.reserve(bytes), whole, now)
  ring.advance(bytes)
  ring.publish()
}

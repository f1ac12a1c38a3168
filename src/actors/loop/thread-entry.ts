/**
 * Entry of a worker thread: waits for its assignment, loads the agent's code, then runs the agent loop. Bundled into
 * one file.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { expose } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { systemClock } from '../../clock.ts'
import * as errors from '../../errors.ts'
import type { Assignment, CodeAssignment, Started, ThreadControl, ToolCode } from '../definition/assignment.ts'
import { type AgentHandlers, agentRef, defineAgent, handlersOf } from '../definition/definition.ts'
import { type Exports, exportsOf } from '../definition/exports.ts'
import { defineProtocol } from '../definition/protocol.ts'
import { defineTool } from '../definition/tool.ts'
import { printed } from '../tools/printed.ts'
import { toolIn } from '../tools/tool-module.ts'
import { type LoadedTool, Toolbox } from '../tools/toolbox.ts'
import { followOwnWork, unseenBy } from '../transport/async-hook.ts'
import { threadMemories } from '../transport/external-memory.ts'
import type { ThreadPort } from '../transport/link.ts'
import { modelAgent } from '../turn/model-agent.ts'
import { moduleScript, ScriptContext } from '../turn/orchestrator.ts'
import { AgentLoop } from './agent-loop.ts'
import { startFailure } from './starting.ts'

/** Provided by thread-boot.cjs. */
declare const importModule: (href: string) => Promise<Exports>

if (!parentPort) throw new Error('This file is the entry of an agent thread; it is started by the runtime.')
const parent = parentPort

// `import 'dramatis'` in a thread (thread-api.ts) reads these classes and functions, so the thread has no second copy.
Object.defineProperty(globalThis, Symbol.for('dramatis.thread'), {
  value: { ...errors, agentRef, defineAgent, defineProtocol, defineTool },
})

// Runs before any code of the agent loads, so that resources opened by its module belong to no turn.
const work = followOwnWork()

const port: ThreadPort = {
  ring: () => parent.postMessage(0),
  onRing: (listener) => void parent.on('message', (bell) => bell === 0 && listener()),
  scheduler: work ? unseenBy(work) : systemClock,
  memories: threadMemories,
  work,
}

/** Code of the agent, as its modules export it. */
interface Loaded {
  handlers: AgentHandlers
  toolbox: Toolbox
}

let loaded: Promise<Loaded> | undefined
let loop: AgentLoop | undefined

const control: ThreadControl = {
  load: (assignment) =>
    replyOf(assignment, async () => {
      await load(assignment)
      return { ok: true, state: undefined }
    }),
  start: (assignment) => replyOf(assignment, () => start(assignment)),
  async isIdle() {
    await printed()
    return loop?.isIdle === true && !hasOwnResources()
  },
  async stop() {
    try {
      await loop?.stop()
    } finally {
      await printed()
    }
  },
}

/** Checks whether code of the agent keeps this thread's event loop alive, as Node itself would decide about its end. */
function hasOwnResources(): boolean {
  const active = process.getActiveResourcesInfo?.() ?? []
  return active.some((type) => type !== 'MessagePort') // the runtime has ports of its own
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

function load(assignment: CodeAssignment): Promise<Loaded> {
  loaded ??= loadAll(assignment)
  return loaded
}

async function loadAll(assignment: CodeAssignment): Promise<Loaded> {
  Object.assign(process.env, assignment.env)
  const { tools } = assignment
  if (tools.modules.some(({ bundled }) => bundled)) process.setSourceMapsEnabled(true)
  const handlers = await handlersFor(assignment)
  return { handlers, toolbox: new Toolbox(tools, await Promise.all(tools.modules.map(loadTool))) }
}

async function start(assignment: Assignment): Promise<Started> {
  const script = 'protocol' in assignment.code
  const { handlers, toolbox } = await load(assignment)
  loop = new AgentLoop(
    assignment,
    handlers,
    toolbox,
    port,
    script ? (turn) => new ScriptContext(turn, () => turn.start.view.roster) : undefined,
  )
  const state = await loop.start(assignment.state)
  queueMicrotask(() => loop?.pump())
  return { ok: true, state, tools: toolbox.names, harmful: toolbox.harmful }
}

async function handlersFor({ code, role, option, instances }: CodeAssignment): Promise<AgentHandlers> {
  if ('model' in code) return modelAgent(instances === 1)
  if (code.bundled) process.setSourceMapsEnabled(true)
  const { default: exported } = await exportsIn('module' in code ? code.module : code.protocol, 'agent')
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

async function exportsIn(module: string, whose: 'agent' | ToolCode): Promise<Exports> {
  try {
    return exportsOf(await importModule(module))
  } catch (error) {
    throw new ImportFailure(error, whose)
  }
}

async function loadTool(code: ToolCode): Promise<LoadedTool> {
  return { tool: toolIn(await exportsIn(code.module, code), code), option: code.option }
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

const { control: controlPort } = workerData as { control: MessagePort }
expose(control, nodeEndpoint(controlPort))

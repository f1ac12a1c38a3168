/** What runs in a worker thread: waits for its assignment, loads the agent's code, then is that agent. Bundled into one file. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { expose } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { systemClock } from '../clock.ts'
import * as errors from '../errors.ts'
import { AgentLoop, startFailure } from './agent-loop.ts'
import type { Assignment, Started, ThreadControl } from './assignment.ts'
import { type AgentHandlers, agentRef, defineAgent, handlersOf } from './definition.ts'
import type { ThreadPort } from './link.ts'
import { moduleScript, OrchestratorTurn } from './orchestrator-turn.ts'
import { defineProtocol } from './protocol.ts'
import { defineTool } from './tool.ts'

if (!parentPort) throw new Error('This file is the entry of an agent thread; it is started by the runtime.')
const parent = parentPort

// What `import 'dramatis'` gives in a thread (thread-api.ts): these classes and functions, not a second copy of them.
Object.defineProperty(globalThis, Symbol.for('dramatis.thread'), {
  value: { ...errors, agentRef, defineAgent, defineProtocol, defineTool },
})

const port: ThreadPort = {
  ring: () => parent.postMessage(0),
  onRing: (listener) => void parent.on('message', (bell) => bell === 0 && listener()),
  scheduler: systemClock,
}

let loop: AgentLoop | undefined

const control: ThreadControl = {
  async start(assignment) {
    try {
      return await start(assignment)
    } catch (error) {
      return { ok: false, error: errors.errorData(startFailure(assignment.role.name, error)) }
    }
  },
  async stop() {
    await loop?.stop()
  },
}

async function start(assignment: Assignment): Promise<Started> {
  Object.assign(process.env, assignment.env)
  const { code, role } = assignment
  if (code.bundled) process.setSourceMapsEnabled(true)
  const exported = await load('module' in code ? code.module : code.protocol, code.shown, role.name)
  const script = 'protocol' in code
  loop = new AgentLoop(
    assignment,
    script ? moduleScript(exported, code.shown, code.config) : agentOf(exported, code.shown, role.name),
    port,
    (made, turn) => (script ? new OrchestratorTurn(made, turn, () => turn.view.roster) : undefined),
  )
  const state = await loop.start(assignment.state)
  queueMicrotask(() => loop?.pump())
  return { ok: true, state }
}

async function load(module: string, shown: string, agent: string): Promise<unknown> {
  try {
    return ((await import(module)) as { default?: unknown }).default
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND'
    throw new errors.ConfigurationError(
      `The module of "${agent}" ${missing ? 'was not found' : 'throws when it is imported'}: ${shown}: ${errors.describe(error)}`,
      { agent, module: shown },
      error,
    )
  }
}

function agentOf(exported: unknown, shown: string, agent: string): AgentHandlers {
  const handlers = handlersOf(exported)
  if (handlers) return handlers
  throw new errors.ConfigurationError(
    `The module of "${agent}" has no agent as its default export: ${shown}. Write: export default defineAgent({ ... }).`,
    { agent, module: shown },
  )
}

const { control: controlPort } = workerData as { control: MessagePort }
expose(control, nodeEndpoint(controlPort))

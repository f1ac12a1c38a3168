/**
 * Strategy `custom`: the user's own protocol. It has the same verbs as the built-in ones, and no others. Source:
 * document 002, 2.2.1.
 */
import { type CustomConfig, checkedResult } from '../actors/definition/protocol.ts'
import { jsonIssue } from '../mailbox/message.ts'
import { type Check, integer, isObject, oneOf, rule, shape } from '../runtime/checks/checks.ts'
import { refused, refusedAs } from '../runtime/checks/refused.ts'
import { depthBound, MAX_DELEGATION_DEPTH } from '../runtime/settings/delegation-bound.ts'
import { moduleFrom } from '../runtime/settings/module.ts'
import type { Strategy } from './strategy.ts'

export type { CustomConfig } from '../actors/definition/protocol.ts'

/** Runs a closure in the host, under its `name`, or a module in a worker thread, under the name in its definition. */
export const custom: Strategy<CustomConfig> = {
  strategy: 'custom',
  routes: true,
  protocol(config) {
    if ('module' in config) {
      moduleOptions(config, 'orchestration')
      return { name: 'custom', module: moduleFrom(config.module, 'orchestration.module'), config: config.config }
    }
    closureOptions(config, 'orchestration')
    const { name = 'custom', run } = config
    return {
      name,
      run: async (orchestrator, query) => checkedResult(name, await run(orchestrator, query)),
      foreign: true,
      text: String(run),
    }
  },
  prepare: ({ maxDelegationDepth }, settings) =>
    maxDelegationDepth === undefined ? settings : { ...settings, delegation: depthBound(maxDelegationDepth) },
}

const closureOptions = shape<Extract<CustomConfig, { run: unknown }>>(
  {
    strategy: oneOf('custom'),
    maxDelegationDepth: integer(1, MAX_DELEGATION_DEPTH),
    name: rule('a name', (name) => typeof name === 'string' && name !== ''),
    run: rule(
      'a function (orchestrator, query) => answer; or "module" in its place',
      (run) => typeof run === 'function',
    ),
  },
  'run',
)

/** Checks for a plain JSON object, because a thread gets a copy of it and the log stores one. */
const jsonObject: Check = (value, path) => {
  if (!isObject(value)) throw refused(path, value, 'an object')
  const issue = jsonIssue(value, path)
  if (issue) throw refusedAs(issue.path, issue.got, 'a JSON value')
}

const moduleOptions = shape<Extract<CustomConfig, { module: unknown }>>(
  {
    strategy: oneOf('custom'),
    maxDelegationDepth: integer(1, MAX_DELEGATION_DEPTH),
    module: rule('a URL or a string', (module) => module instanceof URL || typeof module === 'string'),
    config: jsonObject,
  },
  'module',
)

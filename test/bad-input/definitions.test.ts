/** Definitions that throw when they are read: refused by path, and never with the engine's own error. */
import t from 'tap'
import { ConfigurationError, defineAgent, defineProtocol, defineTeam, defineTool } from '../../src/index.ts'
import { boom, revoked } from './helpers.ts'

const tool = { name: 'add', description: 'Adds.', run: () => 1 }

for (const [call, define, cases] of [
  [
    'defineAgent',
    defineAgent,
    [
      [revoked(), 'definition'],
      [new Proxy({}, { get: boom, ownKeys: boom }), 'definition'],
      [{ receive: () => 'hi', input: revoked() }, 'input'],
    ],
  ],
  [
    'defineTool',
    defineTool,
    [
      [revoked(), 'tool'],
      [new Proxy({}, { get: boom }), 'name'],
      [{ ...tool, input: revoked() }, 'input'],
    ],
  ],
  [
    'defineProtocol',
    defineProtocol,
    [
      [revoked(), 'protocol'],
      [new Proxy({}, { get: boom }), 'protocol'],
    ],
  ],
  [
    'defineTeam',
    defineTeam,
    [
      [revoked(), 'options'],
      [new Proxy({}, { ownKeys: boom }), 'options'],
    ],
  ],
] as const)
  t.test(`${call} names the field that throws when it is read`, async (t) => {
    for (const [given, path] of cases) {
      const says = /throws when it is read \((TypeError|Error: boom)/
      t.throws(() => Reflect.apply(define, undefined, [given]), {
        code: 'CONFIGURATION',
        details: { path },
        message: says,
      })
      t.throws(() => Reflect.apply(define, undefined, [given]), ConfigurationError)
    }
  })

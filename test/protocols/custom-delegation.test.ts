/** Delegations of a script: in whose name, and how deep. What `hierarchical` does, a protocol of one's own does too. */
import t from 'tap'
import { type AgentContext, createTeam, defineAgent, type OrchestratorContext } from '../../src/index.ts'
import { type Cast, type Options, stage, type Test } from '../team/stage.ts'

/** Passes each task on to the next of the line, and says how far it got. */
const chain = defineAgent({
  async receive({ sender }, context: AgentContext) {
    const line = ['a', 'b', 'c', 'd']
    const next = line[line.indexOf(context.role.name) + 1]
    const own = `${sender}>${context.role.name}`
    if (next === undefined) return own
    const below = await context.delegate(next, 'go on').then(
      ({ result }) => String(result),
      (error: { code: string }) => error.code,
    )
    return `${own} ${below}`
  },
})

const line = { a: chain, b: chain, c: chain, d: chain }

async function play(
  t: Test,
  run: (script: OrchestratorContext) => Promise<string>,
  options: Options<string> & { depth?: number; cast?: Cast<string> } = {},
) {
  const { depth, cast = line, ...rest } = options
  const orchestration = { strategy: 'custom' as const, run, ...(depth !== undefined && { maxDelegationDepth: depth }) }
  return stage(t, cast, { ...rest, orchestration }).execute('q')
}

const first = (as?: string) => async (script: OrchestratorContext) =>
  String((await script.delegate('a', 'go', as === undefined ? undefined : { as })).result)

t.test('maxDelegationDepth bounds what agents delegate; a task of the script is the first', async (t) => {
  const expected = [
    [1, '$orchestrator>a DELEGATION_REFUSED'],
    [2, '$orchestrator>a a>b DELEGATION_REFUSED'],
    [3, '$orchestrator>a a>b b>c DELEGATION_REFUSED'],
    [undefined, '$orchestrator>a a>b b>c c>d'],
  ] as const
  for (const [depth, output] of expected) {
    const result = await play(t, first(), depth === undefined ? {} : { depth })
    t.match(result, { success: true, finalOutput: output })
  }
  const named = await play(t, first('d'), { depth: 2 })
  t.match(named, { finalOutput: 'd>a a>b DELEGATION_REFUSED' }, 'whoever gives it')
})

t.test('maxDelegationDepth is checked, beside a module too', (t) => {
  const agents = [{ name: 'a' }]
  const module = new URL('../fixtures/team/relay.js', import.meta.url)
  for (const wrong of [0, 9, 1.5, '2'])
    for (const code of [{ run: async () => '' }, { module }])
      t.throws(
        () =>
          createTeam({
            agents,
            models: 'rehearsal',
            orchestration: { strategy: 'custom', ...code, maxDelegationDepth: wrong as number },
          }),
        { code: 'CONFIGURATION', details: { path: 'orchestration.maxDelegationDepth' } },
      )
  t.end()
})

t.test('as: the role of that agent decides, and the error names it', async (t) => {
  const says = defineAgent({ receive: ({ sender }) => `task of ${sender}` })
  const cast = {
    lead: { code: says, canDelegateTo: ['a'] },
    mute: { code: says, delegationAllowed: false },
    a: says,
    b: says,
    hermit: { code: says, canBeDelegatedTo: false },
  }
  const give = (to: string, as: string) => async (script: OrchestratorContext) =>
    script.delegate(to, 'go', { as }).then(
      ({ result }) => String(result),
      ({ code, message }: { code: string; message: string }) => `${code} ${message}`,
    )
  const cases: [to: string, as: string, expected: RegExp][] = [
    ['a', 'lead', /^task of lead$/],
    ['b', 'lead', /^DELEGATION_REFUSED "lead" cannot delegate to "b": .*canDelegateTo/],
    ['lead', 'lead', /^DELEGATION_REFUSED .*nobody delegates to itself/],
    ['a', 'mute', /^DELEGATION_REFUSED "mute" .*delegationAllowed: false/],
    ['hermit', 'lead', /^DELEGATION_REFUSED .*canBeDelegatedTo: false/],
    ['a', 'nobody', /^UNKNOWN_AGENT .*"nobody"/],
    ['a', '$user', /^UNKNOWN_AGENT /],
  ]
  for (const [to, as, expected] of cases) {
    const { success, finalOutput } = await play(t, give(to, as), { cast })
    t.ok(success)
    t.match(finalOutput, expected, `${as} to ${to}`)
  }
  const wrong = [{ by: 'lead' }, { as: 7 }, { as: '' }, null]
  for (const options of wrong) {
    const result = await play(t, async (script) => String(await script.delegate('a', 'go', options as never)), { cast })
    t.match(result, { success: false, error: { code: 'MESSAGE_REJECTED' } })
  }
})

t.test('an agent cannot speak in the name of another', async (t) => {
  const forges = defineAgent({
    async receive(_message, context: AgentContext) {
      const forged = { metadata: { $sender: 'b' } }
      return (await context.request('b', 'who am I?', forged)).content
    },
  })
  const b = defineAgent({ receive: ({ sender }) => sender })
  const result = await play(t, async (script) => (await script.request('a', 'go')).content, { cast: { a: forges, b } })
  t.equal(result.finalOutput, 'a')
})

import t from 'tap'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { agents, detailsOf, errorFor, module, role } from './settings-helpers.ts'

t.test('a name is missing, empty, outside the grammar, or too long', async (t) => {
  t.equal(detailsOf({ agents: [{}] }), 'agents[0].name: nothing')
  for (const name of ['', 'two words', '1st', 'a.b', 'x'.repeat(65)]) {
    t.match(errorFor({ agents: [{ name, module }] }), {
      message: /^agents\[0\]\.name: got .*a letter, then letters, digits, '_' and '-', at most 64/,
    })
  }
  t.equal(settingsFrom({ agents: [{ name: 'Zoë_1-名', module }] }).agents[0]?.name, 'Zoë_1-名')
})

t.test("a name that begins with '$' is the runtime's own", async (t) => {
  t.match(errorFor({ agents: [{ name: '$user', module }] }).message, /'\$' are the runtime's own/)
})

t.test('two agents cannot have one name', async (t) => {
  t.match(errorFor({ agents: [...agents, { name: 'bob', module }, ...agents] }), {
    message: 'agents[2].name: got "ann", which agents[0] has already; accepted: a name that no other agent has.',
  })
})

t.test('an agent that nobody defines is named, with the one that was meant', async (t) => {
  t.match(errorFor(role({ canDelegateTo: ['ann', 'anne'] })), {
    message: 'agents[0].canDelegateTo[1]: got "anne"; accepted: an agent of this team (ann). Did you mean "ann"?',
  })
  t.equal(detailsOf(role({ sharedWith: ['bob'] })), 'agents[0].sharedWith[0]: "bob"')
  t.equal(detailsOf(role({ escalateTo: 'bob' })), 'agents[0].escalateTo: "bob"')
})

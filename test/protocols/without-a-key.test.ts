/** Each strategy, in each of its forms, gets to an answer by the rehearsal model: what nobody can try needs a key. */
import t from 'tap'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { rehearsalModel, testTeam } from '../../src/testing.ts'

const names = ['ann', 'bob', 'cat', 'dan'] as const
const agents = names.map((name) => ({ name, capabilities: ['writing'], systemPrompt: `You are ${name}.` }))
const workers = ['ann', 'bob', 'cat'] as const

const forms: Record<string, OrchestrationConfig<(typeof names)[number]>> = {
  sequential: { strategy: 'sequential' },
  'early end': { strategy: 'sequential', earlyTermination: true, allowSkip: true },
  merge: { strategy: 'parallel' },
  'first answer': { strategy: 'parallel', requireAll: false, waitFor: 'first' },
  vote: { strategy: 'parallel', aggregationStrategy: 'vote' },
  best: { strategy: 'parallel', agents: workers, aggregationStrategy: 'best', judge: 'dan' },
  'best of two': { strategy: 'parallel', agents: ['ann', 'bob'], aggregationStrategy: 'best', judge: 'cat' },
  aggregator: { strategy: 'parallel', agents: workers, aggregationStrategy: 'custom', aggregator: 'dan' },
  synthesize: { strategy: 'parallel', agents: workers, conflictResolution: 'synthesize', judge: 'dan' },
  evidence: { strategy: 'parallel', agents: workers, conflictResolution: 'evidence', judge: 'dan' },
  auction: { strategy: 'auction' },
  blackboard: { strategy: 'blackboard' },
  consensus: { strategy: 'consensus' },
  'consensus by votes': { strategy: 'consensus', agents: workers, consensusMethod: 'vote', tieBreaker: 'dan' },
  'consensus by talk': { strategy: 'consensus', agents: workers, consensusMethod: 'discussion', tieBreaker: 'dan' },
  'consensus on a text': { strategy: 'consensus', agents: workers, consensusMethod: 'synthesis', tieBreaker: 'dan' },
  debate: { strategy: 'debate', debaters: ['ann', 'bob'], judge: 'cat' },
  hierarchical: { strategy: 'hierarchical', manager: 'dan', workers },
  collaborate: { strategy: 'collaborate' },
  supervisor: { strategy: 'supervisor', supervisor: 'dan', experts: workers },
}

for (const [form, orchestration] of Object.entries(forms))
  t.test(form, async (t) => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const team = testTeam({ agents, orchestration }, { model: rehearsalModel(seed) })
      t.teardown(() => team.close())
      const { success, error, rehearsed, finalOutput } = await team.execute('Should we migrate from REST to GraphQL?')
      if (form === 'consensus' && error?.code === 'CONSENSUS') continue // they did not agree, as teams may
      t.match({ success, error, rehearsed }, { success: true, rehearsed: true, error: undefined }, `seed ${seed}`)
      t.not(finalOutput, '')
    }
  })

/**
 * Votes and consensus against a count that shares no code with them: values are compared by Node, weights are tenths that
 * are added up as integers, thresholds are fractions.
 */
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { vote } from '../../src/actors/model/decisions.ts'
import { protocolFrom } from '../../src/protocols/index.ts'
import { agreementOn } from '../../src/protocols/positions.ts'
import type { ConsensusConfig } from '../../src/protocols.ts'
import { Dice } from '../dice.ts'
import { FakeOrchestrator, type Part } from '../fixtures/fake-orchestrator.ts'

interface Voter {
  agent: string
  /** In tenths; undefined: none is given. What is no integer is no usable weight. */
  tenths: number | null | undefined
  weight: number | null | undefined
}
interface Cast {
  voter: Voter
  value: unknown
}

const FRACTIONS = [
  [1, 10],
  [1, 3],
  [1, 2],
  [3, 5],
  [2, 3],
  [67, 100],
  [9, 10],
  [1, 1],
] as const
type Needed = (typeof FRACTIONS)[number] | 'all'

const VALUES = [80, 443, '443', 'yes', true, null, [1, 2], [2, 1], {}, [], { x: 1, y: [{ p: 1, q: null }] }, { x: 2 }]

function votersFrom(dice: Dice): Voter[] {
  const odd = dice.chance(0.15) // some elections have a voter without a usable weight
  return Array.from({ length: 1 + dice.upTo(7) }, (_, i) => {
    const agent = `agent${i}`
    if (odd && dice.chance(0.4))
      return { agent, tenths: null, weight: dice.pick([null, Number.NaN, Infinity, -Infinity]) }
    if (dice.chance(0.3)) return { agent, tenths: undefined, weight: undefined }
    const tenths = dice.pick([0, 1, 2, 3, 5, 7, 10, 20, 33])
    return { agent, tenths, weight: tenths / 10 }
  })
}

/** The same value with its keys in another order. */
function shuffled(value: unknown, dice: Dice): unknown {
  if (Array.isArray(value)) return value.map((item) => shuffled(item, dice))
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).map(([key, field]): [string, unknown] => [key, shuffled(field, dice)])
  return Object.fromEntries(dice.chance(0.5) ? fields.reverse() : fields)
}

/** Groups in the order in which their values come, each with its weight in tenths. */
function counted(casts: readonly Cast[]) {
  const byHeads = casts.some(({ voter }) => voter.tenths === null)
  const tenthsOf = ({ tenths }: Voter) => (byHeads ? 10 : (tenths ?? 10))
  const groups: { value: unknown; tenths: number; heads: number }[] = []
  for (const { voter, value } of casts) {
    let group = groups.find((one) => isDeepStrictEqual(one.value, value))
    if (!group) {
      group = { value, tenths: 0, heads: 0 }
      groups.push(group)
    }
    group.tenths += tenthsOf(voter)
    group.heads += 1
  }
  const most = Math.max(-1, ...groups.map(({ tenths }) => tenths))
  const leaders = groups.filter(({ tenths }) => tenths === most)
  return { groups, most, winner: leaders[0]?.value, tied: leaders.length > 1, tenthsOf }
}

function isAgreed(casts: readonly Cast[], abstained: readonly Voter[], needed: Needed): boolean {
  const { groups, most, tied, tenthsOf } = counted(casts)
  if (casts.length === 0 || tied) return false
  if (needed === 'all') return groups.length === 1 && abstained.length === 0
  const total = [...casts.map(({ voter }) => voter), ...abstained].reduce((sum, voter) => sum + tenthsOf(voter), 0)
  return total > 0 && most * needed[1] >= needed[0] * total
}

const near = (a: number, b: number) => Math.abs(a - b) < 1e-6

t.test('10,000 elections are counted as the other count does', async (t) => {
  const seen = { tied: 0, heads: 0, agreed: 0, unanimous: 0 }
  for (let seed = 1; seed <= 10_000; seed++) {
    const dice = new Dice(seed)
    const voters = votersFrom(dice)
    const pool = VALUES.slice(dice.upTo(VALUES.length - 1)).slice(0, 1 + dice.upTo(3))
    const abstained = voters.filter(() => dice.chance(0.1))
    const casts = voters
      .filter((voter) => !abstained.includes(voter))
      .map((voter) => ({ voter, value: shuffled(dice.pick(pool), dice) }))
    const needed: Needed = dice.chance(0.2) ? 'all' : dice.pick(FRACTIONS)
    const ballots = casts.map(({ voter, value }) => ({ agent: voter.agent, value }))
    const weights = Object.fromEntries(voters.map(({ agent, weight }) => [agent, weight]))
    const { groups, most, winner, tied } = counted(casts)

    if (ballots.length > 0) {
      const verdict = vote(ballots, weights)
      const scores = Object.values(verdict.scores).sort((a, b) => a - b)
      const others = groups.map(({ tenths }) => tenths / 10).sort((a, b) => a - b)
      const same =
        isDeepStrictEqual(verdict.winner, winner) &&
        verdict.tied === tied &&
        scores.length === others.length &&
        scores.every((score, i) => near(score, others[i] ?? Number.NaN))
      if (!same) t.fail(`election ${seed}: ${JSON.stringify({ verdict, groups })}`)
    }
    const roster = voters.map(({ agent, weight }) => ({
      name: agent,
      status: 'idle' as const,
      playedByModel: false,
      weight,
    }))
    const agreement = agreementOn(
      { agents: roster, vote: (list) => vote(list, weights) },
      ballots,
      abstained.map(({ agent }) => agent),
      needed === 'all' ? 'all' : needed[0] / needed[1],
    )
    const agreed = isAgreed(casts, abstained, needed)
    const right = agreement.reached === agreed && (ballots.length === 0 || near(agreement.score, most / 10))
    if (!right) t.fail(`agreement ${seed}: ${JSON.stringify({ agreement, agreed, needed, casts, abstained })}`)
    if (tied) seen.tied++
    if (voters.some(({ tenths }) => tenths === null)) seen.heads++
    if (agreed) seen.agreed++
    if (needed === 'all' && agreed) seen.unanimous++
  }
  for (const [kind, count] of Object.entries(seen)) t.ok(count > 300, `${kind}: ${count}`)
})

t.test('the protocol agrees when the other count does, on first answers and on ballots', async (t) => {
  const ends = { first: 0, ballots: 0, none: 0 }
  for (let seed = 1; seed <= 1_500; seed++) {
    const dice = new Dice(100_000 + seed)
    const voters = votersFrom(dice)
    if (voters.length < 2) continue
    const pool = VALUES.slice(0, 1 + dice.upTo(4)).filter((value) => value !== null)
    const needed: Needed = dice.chance(0.2) ? 'all' : dice.pick(FRACTIONS)
    const first = voters.map((voter) => ({ voter, value: shuffled(dice.pick(pool), dice) }))
    const list = counted(first).groups.map(({ value }) => value)
    const favourite = 1 + dice.upTo(list.length)
    const choices = voters.map(() => (dice.chance(0.6) ? favourite : 1 + dice.upTo(list.length + 1))) // some are for nothing on the list
    const parts = voters.map(({ agent, weight }, i): [string, Part] => {
      const says: Part['says'] = (_content, data) => ({
        structuredData: data === undefined ? first[i]?.value : { choice: choices[i] },
      })
      return [agent, { says, weight }]
    })
    const fake = new FakeOrchestrator(Object.fromEntries(parts))
    const share = needed === 'all' ? { requireUnanimous: true } : { consensusThreshold: needed[0] / needed[1] }
    const config: ConsensusConfig = { strategy: 'consensus', consensusMethod: 'vote', maxRounds: 1, ...share }
    const result = await fake
      .play(
        protocolFrom(
          config,
          voters.map(({ agent }) => agent),
        ),
      )
      .then(({ content }) => content)
      .catch((error: { code: string }) => error.code)

    const onList = voters.flatMap((voter, i) => {
      const at = (choices[i] ?? 0) - 1
      return at < list.length ? [{ voter, value: list[at] }] : []
    })
    const abstained = voters.filter((voter) => !onList.some((cast) => cast.voter === voter))
    const end = isAgreed(first, [], needed) ? 'first' : isAgreed(onList, abstained, needed) ? 'ballots' : 'none'
    ends[end]++
    const winner = counted(end === 'first' ? first : onList).winner
    const right = end === 'none' ? result === 'CONSENSUS' : isDeepStrictEqual(JSON.parse(result), winner)
    if (!right) t.fail(`election ${seed}: ${JSON.stringify({ end, result, winner, first, choices })}`)
  }
  for (const [kind, count] of Object.entries(ends)) t.ok(count > 100, `${kind}: ${count}`)
})

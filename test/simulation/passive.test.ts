/** Agents without a thread under random faults. A failure names its seed: SEED=7 node dist/test/simulation/passive.test.js */
import { playPassive } from './passive-teams.ts'

playPassive('orderly', { plain: 40, deep: 5_000 }, 'passive')

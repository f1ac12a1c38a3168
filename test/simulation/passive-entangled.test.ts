/**
 * Agents without a thread that wait for each other, and with all verbs, under random faults. A failure names its seed:
 * SEED=7 node dist/test/simulation/passive-entangled.test.js
 */
import { playPassive } from './passive-teams.ts'

playPassive('talkative', { plain: 12, deep: 1_500 }, 'passive-entangled')
playPassive('entangled', { plain: 12, deep: 1_500 }, 'passive-entangled')

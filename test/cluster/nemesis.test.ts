/**
 * Three processes of a cluster, killed, frozen, ended, cut off, with databases that restart and brokers that die, freeze
 * and lead by turns: nothing is lost or done twice.
 */
import { endsOnce } from './ends-once.ts'

endsOnce('PostgreSQL', { plain: 15, deep: 36 }, 50)
endsOnce('JetStream', { plain: 6, deep: 36 }, 40)

/** The strategies whose order is written down. */
import { holdsFor } from './holds.ts'

holdsFor('sequential', 'parallel', 'custom')

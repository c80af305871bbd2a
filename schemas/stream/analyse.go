package stream

// Analyse is where users' analysers are asked what they find out about items. They answer with
// the login of RoleAnalyser.
const Analyse = "analyse.items"

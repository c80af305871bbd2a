package userqueue

// DomainWait is domainWait.
var DomainWait = (*Store).domainWait
